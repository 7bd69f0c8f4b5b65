package wire

import (
	"io"
	"sync"
	"time"
)

// watchAfter is what a call may take before its stream is watched, and twice
// that what it takes at most.
const watchAfter = 20 * time.Millisecond

// A stream is what a Server reads. While a call takes long it is read ahead, by
// one byte, so that its end is noticed. A goroutine that always reads ahead, or
// a timer for each call, would double the time that a request takes.
type stream struct {
	conn  io.Reader
	ended func() // called when reading ahead finds the end

	mu      sync.Mutex // guards the following
	timer   *time.Timer
	armed   bool   // timer runs, since the call with this number
	since   uint64 // began
	calls   uint64
	busy    bool // the last of them has not returned
	looking bool // look was started, and Read has not met it yet

	looked chan struct{} // receives when look is done
	b      [1]byte       // what look found
	n      int
	err    error
}

func newStream(conn io.Reader, ended func()) *stream {
	s := &stream{conn: conn, ended: ended, looked: make(chan struct{}, 1)}
	s.timer = time.AfterFunc(time.Hour, s.expire)
	s.timer.Stop()
	return s
}

// begin says that a call begins, end that it has returned.
func (s *stream) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.busy = true
	if !s.armed && !s.looking {
		s.arm()
	}
}

func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
}

func (s *stream) arm() {
	s.armed, s.since = true, s.calls
	s.timer.Reset(watchAfter)
}

func (s *stream) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = false
	switch {
	case !s.busy:
	case s.since == s.calls:
		s.looking = true
		go s.look()
	default: // it began since
		s.arm()
	}
}

func (s *stream) look() {
	if s.n, s.err = s.conn.Read(s.b[:]); s.err != nil {
		s.ended()
	}
	s.looked <- struct{}{}
}

// Read implements io.Reader. It must not be called during a call.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	looking := s.looking
	s.looking = false
	s.mu.Unlock()
	if !looking {
		return s.conn.Read(p)
	}
	<-s.looked
	return copy(p, s.b[:s.n]), s.err
}
