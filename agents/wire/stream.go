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
	onEnd func() // called when reading ahead finds the end

	mu           sync.Mutex // guards the following
	timer        *time.Timer
	timerRuns    bool   // timer runs, since the call with this number
	timedCall    uint64 // began
	callCount    uint64
	inCall       bool // the last of them has not returned
	readingAhead bool // look was started, and Read has not met it yet

	readAheadDone chan struct{} // receives when look is done
	aheadByte     [1]byte       // what look found
	aheadLen      int
	aheadErr      error
}

func newStream(conn io.Reader, onEnd func()) *stream {
	s := &stream{conn: conn, onEnd: onEnd, readAheadDone: make(chan struct{}, 1)}
	s.timer = time.AfterFunc(time.Hour, s.timerExpired)
	s.timer.Stop()
	return s
}

// beginCall says that a call begins, end that it has returned.
func (s *stream) beginCall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callCount++
	s.inCall = true
	if !s.timerRuns && !s.readingAhead {
		s.startTimer()
	}
}

func (s *stream) endCall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inCall = false
}

func (s *stream) startTimer() {
	s.timerRuns, s.timedCall = true, s.callCount
	s.timer.Reset(watchAfter)
}

func (s *stream) timerExpired() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timerRuns = false
	switch {
	case !s.inCall:
	case s.timedCall == s.callCount:
		s.readingAhead = true
		go s.readAhead()
	default: // it began since
		s.startTimer()
	}
}

func (s *stream) readAhead() {
	if s.aheadLen, s.aheadErr = s.conn.Read(s.aheadByte[:]); s.aheadErr != nil {
		s.onEnd()
	}
	s.readAheadDone <- struct{}{}
}

// Read implements io.Reader. It must not be called during a call.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	readingAhead := s.readingAhead
	s.readingAhead = false
	s.mu.Unlock()
	if !readingAhead {
		return s.conn.Read(p)
	}
	<-s.readAheadDone
	return copy(p, s.aheadByte[:s.aheadLen]), s.aheadErr
}
