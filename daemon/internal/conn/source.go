package conn

import (
	"sync"

	"github.com/gopcp/pmcd/internal/rawio"
)

// A Source is a reply that is made while it is written. So a reply that is much longer than what it
// is made of takes no memory while its client does not read.
type Source interface {
	// Peek returns the next bytes of the reply; none at the end. It may make them in buf, which
	// has slowPiece bytes or more and is not kept.
	Peek(buf []byte) []byte

	// Advance moves by n of the bytes that Peek has returned.
	Advance(n int)

	// Held returns how many bytes of memory the Source takes.
	Held() int
}

// The lengths of the pieces in which a Source is written, in bytes: until the client does not take
// all of one, and afterwards. Fewer pieces wake a client that reads less often, and what it
// does not take has to be made again.
const (
	quickPiece = rawio.MaxSyscallBytes
	slowPiece  = 64 << 10
)

var pieces = sync.Pool{New: func() any { return new([quickPiece]byte) }}

// A whole is a reply in memory as a Source.
type whole struct {
	rest []byte
	size int
}

func (w *whole) Peek([]byte) []byte { return w.rest }
func (w *whole) Advance(n int)      { w.rest = w.rest[n:] }
func (w *whole) Held() int          { return w.size }

// quickPieces is how many pieces are written with the slot of the request, if the client takes them.
const quickPieces = 4

// write writes at most so many pieces of size bytes of src with f, which returns what it cannot write
// without waiting. It reports whether all is written, and how many bytes were.
func write(src Source, size, most int, f func(b []byte) (rest []byte, err error)) (n int, done bool, err error) {
	buf := pieces.Get().(*[quickPiece]byte)
	defer pieces.Put(buf)
	for range most {
		b := src.Peek(buf[:size])
		b = b[:min(len(b), quickPiece)]
		if len(b) == 0 {
			return n, true, nil
		}
		rest, err := f(b)
		k := len(b) - len(rest)
		src.Advance(k)
		n += k
		if err != nil || len(rest) > 0 {
			return n, false, err
		}
	}
	return n, false, nil
}

const (
	// sealedPiece is how many bytes of a reply are encrypted at a time: as many as the
	// largest record has.
	sealedPiece = 16 << 10

	// maxSealed is how many bytes they become, at most: crypto/tls makes small records at the
	// beginning of a connection.
	maxSealed = sealedPiece + 1<<10
)

// A sealed is what is sent of src in a TLS connection.
type sealed struct {
	src  Source
	conn *Secure
	out  *[]byte // memory for records
	rest []byte  // of out, not written yet
	err  error   // why there is no more
}

var records = sync.Pool{New: func() any { return new([]byte) }}

// write writes s.
func (s *sealed) write() error {
	s.out = records.Get().(*[]byte)
	defer records.Put(s.out)
	err := s.conn.plainConn.writeSource(s)
	if err == nil {
		err = s.err
	}
	return err
}

func (s *sealed) Peek(buf []byte) []byte {
	if len(s.rest) > 0 || s.err != nil {
		return s.rest
	}
	b := s.src.Peek(buf[:sealedPiece])
	if b = b[:min(len(b), sealedPiece)]; len(b) == 0 {
		return nil
	}
	*s.out = (*s.out)[:0]
	s.conn.records.capture = s.out
	_, s.err = s.conn.tls.Write(b)
	s.conn.records.capture = nil
	s.src.Advance(len(b))
	s.rest = *s.out
	return s.rest
}

func (s *sealed) Advance(n int) { s.rest = s.rest[n:] }
func (s *sealed) Held() int     { return s.src.Held() + maxSealed }
