package conn

import (
	"crypto/tls"
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/fairqueue"
)

// A TLS makes connections secure. Its fields must not change while it is used.
type TLS struct {
	// Timeout returns how long a client may take for the handshake, and for the rest of a
	// record that has begun to arrive. 0 is DefaultTLSTimeout.
	Timeout func() time.Duration

	handshakes handshakes
}

// DefaultTLSTimeout is the limit of TLS.Timeout where there is no other. Without a limit,
// clients that begin a handshake and send nothing could collect for ever.
const DefaultTLSTimeout = 10 * time.Second

func (t *TLS) timeout() time.Duration {
	if d := t.Timeout(); d > 0 {
		return d
	}
	return DefaultTLSTimeout
}

// Handshakes returns how many handshakes are computed, and how many may be at a time.
func (t *TLS) Handshakes() (n, most int64) {
	l := t.handshakes.limiter()
	return l.Used(), l.Limit()
}

// Resize makes the number of handshakes that are computed at a time follow GOMAXPROCS.
func (t *TLS) Resize() { t.handshakes.limiter().SetLimit(int64(t.handshakes.most())) }

// Server makes the server's part of a TLS handshake on c, and returns a Conn for what is in
// the TLS connection. pending is what was read from c already and belongs to it. At most
// max(1, GOMAXPROCS-2) handshakes are computed at a time; the others take turns by their
// keys. A handshake that waits for its client is not counted. hold is called with how many
// bytes the handshake may have in memory, each time that there are more; its error ends the
// handshake.
//
// The goroutine that serves c calls Server. From then on it must use the Conn that Server
// returns, also if there is an error: then only Close. c is still good for the methods of
// Handle.
//
// crypto/tls is used in a way that its documentation allows: a Read that fails with a
// temporary net.Error does not end the connection after the handshake. So an idle
// connection needs no goroutine and no buffer of its own.
func (t *TLS) Server(c Conn, cfg *tls.Config, pending []byte, key *fairqueue.Key, hold func(n int64) error) (*Secure, error) {
	s := &Secure{plainConn: c.(plainConn), limits: t}
	deadline := time.Now().Add(t.timeout())
	h := &handshake{limiter: t.handshakes.limiter(), plain: s.plainConn, key: key, deadline: deadline, hold: hold}
	s.records = recordConn{plain: s.plainConn, pending: pending, handshake: h}
	s.tls = tls.Server(&s.records, cfg)
	s.plainConn.SetReadDeadline(deadline)
	err := s.tls.Handshake()
	h.end()
	s.records.handshake, s.records.quiet = nil, 0
	if err != nil {
		s.failed = true
		s.readErr = err
	}
	return s, err
}

// A plainConn is a Conn that can be made secure.
type plainConn interface {
	Conn

	// buffered returns how many bytes Read returns without a system call.
	buffered() int

	// writeSource is WriteFrom for a reply that may be in memory, and limitNotSent is what
	// WriteFrom does first.
	writeSource(src Source) error
	limitNotSent()

	// ended returns a channel that is closed when Interrupt or Abort has been called.
	ended() <-chan struct{}

	// interrupted returns the error of Interrupt, or nil.
	interrupted() error

	// These call the methods of the Session.
	beforeWork()
	beforeWait()
}

// A Secure is a Conn in a TLS connection.
type Secure struct {
	plainConn
	limits  *TLS
	tls     *tls.Conn
	records recordConn

	first    [64]byte // for Wait, which has to read to find out that there is input
	in       []byte   // of first, not read yet
	readErr  error    // that ends the input
	deadline time.Time
	failed   bool // the handshake has
}

// Bits returns the strength of the cipher (SSF, as SASL calls it).
func (s *Secure) Bits() int { return cipherBits(s.tls.ConnectionState().CipherSuite) }

// cipherBits returns the length of the key of a cipher suite.
func cipherBits(suite uint16) int {
	switch suite {
	case tls.TLS_AES_128_GCM_SHA256,
		tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256,
		tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256:
		return 128
	}
	return 256
}

// Wait implements Conn.
func (s *Secure) Wait() error {
	s.deadline = time.Time{}
	for first := true; ; first = false {
		// Even without input of plainConn there may be a record that was read with others.
		switch err := s.take(); {
		case err == nil:
			return nil
		case err != errNoInput:
			return err
		}
		if !first {
			s.plainConn.beforeWait()
		}
		trimBuffers(s.tls)
		if err := s.plainConn.Wait(); err != nil {
			return err
		}
		s.records.ready = true
		s.plainConn.beforeWork()
	}
}

// take reads what is there into in. It waits for the rest of a record.
func (s *Secure) take() error {
	if len(s.in) > 0 {
		return nil
	}
	if s.readErr != nil {
		return s.readErr
	}
	s.records.recordTime, s.records.timed = s.limits.timeout(), false
	n, err := s.tls.Read(s.first[:])
	if s.in = s.first[:n]; n > 0 {
		s.records.quiet = 0
		return nil
	}
	if err = readError(err); err == errNoInput && s.records.quiet > maxQuietInput {
		err = errQuiet
	}
	if err != errNoInput {
		s.readErr = err
	}
	return err
}

// readError returns an error of tls.Conn.Read as that of a Conn.
func readError(err error) error {
	switch {
	case err == nil, errors.Is(err, errNoInput): // nil: a record with nothing in it
		return errNoInput
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET): // a client may disconnect without close_notify
		return io.EOF
	}
	return err
}

// SetReadDeadline implements Conn.
func (s *Secure) SetReadDeadline(t time.Time) { s.deadline = t }

// Read implements Conn.
func (s *Secure) Read(b []byte) (int, error) {
	if n := copy(b, s.in); n > 0 {
		s.in = s.in[n:]
		if n < len(b) && s.readErr == nil { // the rest of the record, if there is one
			s.records.held = true
			more, err := s.tls.Read(b[n:])
			s.records.held = false
			n += more
			if err = readError(err); more == 0 && err != errNoInput {
				s.readErr = err
			}
		}
		return n, nil
	}
	if s.readErr != nil || len(b) == 0 {
		return 0, s.readErr
	}
	s.records.wait = true
	s.plainConn.SetReadDeadline(s.deadline)
	defer func() { s.records.wait = false }()
	for {
		n, err := s.tls.Read(b)
		if n > 0 {
			s.records.quiet = 0
			return n, nil
		}
		if err = readError(err); err != errNoInput {
			return 0, err
		}
	}
}

// Write implements Conn.
func (s *Secure) Write(b []byte) (int, error) {
	if len(b) <= sealedPiece {
		return s.tls.Write(b)
	}
	out := sealed{src: &whole{b, len(b)}, conn: s}
	if err := out.write(); err != nil {
		return 0, err
	}
	return len(b), nil
}

// WriteFrom implements Conn.
func (s *Secure) WriteFrom(src Source) error {
	s.plainConn.limitNotSent()
	out := sealed{src: src, conn: s}
	return out.write()
}

// Close implements Conn. If last is not nil, the TLS connection is ended too
// (close_notify).
func (s *Secure) Close(last []byte) {
	var out []byte
	switch {
	case s.failed:
		// The client is to read why, which crypto/tls has written.
		out = s.records.written()
	case last != nil:
		s.records.capture = &out
		s.tls.Write(last)
		s.tls.CloseWrite()
	}
	s.plainConn.Close(out)
}
