package conn

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// errNoInput is the error of a read that would have to wait. crypto/tls does not keep it,
// because it is temporary.
var errNoInput error = noInput{}

type noInput struct{}

func (noInput) Error() string   { return "no input yet" }
func (noInput) Timeout() bool   { return true }
func (noInput) Temporary() bool { return true }

const (
	// maxHandshakeInput is how many bytes a client may send for a handshake, and later for
	// one message of the TLS protocol. crypto/tls would keep a message of 256 KiB. It is
	// more than two records: crypto/tls may have read one before it is its turn.
	maxHandshakeInput = 64 << 10

	// maxQuietInput is how many bytes may arrive without data before the connection is idle.
	// An update of the keys has 27. Without a limit, a client could leave a large message of
	// the TLS protocol incomplete for as long as it likes.
	maxQuietInput = 2 << 10
)

// errQuiet ends the connection of a client that sends more than these limits.
var errQuiet = fmt.Errorf("it sends too many TLS bytes without application data: more than %d, or %d while it is idle", maxHandshakeInput, maxQuietInput)

// A recordConn is the plainConn of a Secure, as crypto/tls reads and writes it.
type recordConn struct {
	plain   plainConn
	pending []byte // was read from plain before
	record  record // the one that is being read

	handshake *handshake // nil after it

	// How Read behaves after the handshake, if there is no input: in the middle of a record
	// it waits for recordTime at most, and before a record it fails with errNoInput.
	recordTime time.Duration
	timed      bool // plain has the deadline for that
	ready      bool // Wait of plain has returned nil, and nothing was read since
	wait       bool // it waits in any case, with the deadline of plain
	held       bool // it fails with errNoInput in any case: only what crypto/tls holds is wanted
	quiet      int  // bytes of input since the last data

	capture *[]byte // gets what is written; nil to write it to plain
	wrote   bool
}

// Read implements net.Conn.
func (s *recordConn) Read(b []byte) (n int, err error) {
	if s.quiet > maxHandshakeInput {
		return 0, errQuiet
	}
	if len(s.pending) > 0 {
		n = copy(b, s.pending)
		s.pending = s.pending[n:]
	} else if n, err = s.readPlain(b); err != nil {
		return n, err
	}
	s.quiet += n
	s.record.advance(b[:n])
	if s.handshake != nil {
		// The record that is being read, and the message that it is a part of.
		if err := s.handshake.hold(2 * int64(s.quiet)); err != nil {
			return n, err
		}
		return n, s.handshake.begin()
	}
	return n, nil
}

// readPlain reads from plain. It returns no error with what it has read.
func (s *recordConn) readPlain(b []byte) (n int, err error) {
	switch {
	case s.handshake != nil:
		if s.plain.buffered() == 0 {
			s.handshake.end()
		}
	case s.held:
		return 0, errNoInput
	case s.wait:
	case !s.ready && !s.record.begun():
		return 0, errNoInput
	case !s.timed:
		s.timed = true
		s.plain.SetReadDeadline(time.Now().Add(s.recordTime))
	}
	s.ready = false
	n, err = s.plain.Read(b)
	switch {
	case n > 0:
		err = nil
		if s.handshake == nil { // Read may have waited, and handshakes have turns of their own
			s.plain.beforeWork()
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = os.ErrDeadlineExceeded // which is temporary; with the name of a file it is not
	}
	return n, err
}

// Write implements net.Conn.
func (s *recordConn) Write(b []byte) (int, error) {
	s.wrote = true
	switch {
	case s.capture != nil:
		*s.capture = append(*s.capture, b...)
		return len(b), nil
	case s.handshake == nil:
		return s.plain.Write(b)
	}
	// The client may be slow to read. What is computed after that is little, until there is
	// more input.
	s.handshake.end()
	timer := time.AfterFunc(time.Until(s.handshake.deadline), s.plain.Abort)
	n, err := s.plain.Write(b)
	if !timer.Stop() {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// written returns an empty slice if something was written, and nil otherwise.
func (s *recordConn) written() []byte {
	if s.wrote {
		return []byte{}
	}
	return nil
}

// The other methods of net.Conn are not used: a Secure sets the deadlines of plain and
// closes it.

func (s *recordConn) Close() error                     { return errors.ErrUnsupported }
func (s *recordConn) LocalAddr() net.Addr              { return nil }
func (s *recordConn) RemoteAddr() net.Addr             { return nil }
func (s *recordConn) SetDeadline(time.Time) error      { return nil }
func (s *recordConn) SetReadDeadline(time.Time) error  { return nil }
func (s *recordConn) SetWriteDeadline(time.Time) error { return nil }

// A record is where in a TLS record (RFC 8446, section 5.1) the input is. Its header is a
// type, a version of two bytes, and the length of the rest.
type record struct {
	header [5]byte
	have   int // bytes of header
	rest   int // bytes after the header that are to come
}

// begun reports whether the input is in the middle of a record.
func (r *record) begun() bool { return r.have > 0 }

// advance takes note of more input.
func (r *record) advance(b []byte) {
	for len(b) > 0 {
		if r.have < len(r.header) {
			n := copy(r.header[r.have:], b)
			b = b[n:]
			if r.have += n; r.have < len(r.header) {
				return
			}
			r.rest = int(r.header[3])<<8 | int(r.header[4])
		}
		n := min(r.rest, len(b))
		b = b[n:]
		if r.rest -= n; r.rest == 0 {
			r.have = 0
		}
	}
}
