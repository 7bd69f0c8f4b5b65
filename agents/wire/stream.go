package wire

import (
	"io"
	"sync"
	"time"
)

// readAheadDelay is how long a call may take before the stream is read ahead. The
// timer may have been started for an earlier call, so it can be twice as long.
const readAheadDelay = 20 * time.Millisecond

// A stream reads PDUs for a Server. During a call of the Agent that takes long, it
// reads one byte ahead, to notice the end of the stream. A goroutine that always
// reads ahead, or a timer for each call, would double the time of a request.
type stream struct {
	conn  io.Reader
	onEnd func() // called when reading ahead finds the end

	mu           sync.Mutex // guards the following
	timer        *time.Timer
	timerRuns    bool
	timedCall    uint64 // the number of the call for which timer was started
	callCount    uint64 // the number of the last call
	inCall       bool   // the last call has not returned
	readingAhead bool   // readAhead was started, and Read has not taken its result

	readAheadDone chan struct{} // receives when readAhead is done
	aheadByte     [1]byte       // the result of readAhead
	aheadLen      int
	aheadErr      error
}

func newStream(conn io.Reader, onEnd func()) *stream {
	s := &stream{conn: conn, onEnd: onEnd, readAheadDone: make(chan struct{}, 1)}
	s.timer = time.AfterFunc(time.Hour, s.timerExpired)
	s.timer.Stop()
	return s
}

// beginCall is called before each call of the Agent.
func (s *stream) beginCall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callCount++
	s.inCall = true
	if !s.timerRuns && !s.readingAhead {
		s.startTimer()
	}
}

// endCall is called when the call has returned.
func (s *stream) endCall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inCall = false
}

// startTimer starts the timer for the current call. The caller holds mu.
func (s *stream) startTimer() {
	s.timerRuns, s.timedCall = true, s.callCount
	s.timer.Reset(readAheadDelay)
}

// timerExpired starts readAhead if the call that the timer was started for has not
// returned.
func (s *stream) timerExpired() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timerRuns = false
	switch {
	case !s.inCall:
	case s.timedCall == s.callCount:
		s.readingAhead = true
		go s.readAhead()
	default: // this call began later
		s.startTimer()
	}
}

// readAhead reads one byte, and calls onEnd if that fails.
func (s *stream) readAhead() {
	if s.aheadLen, s.aheadErr = s.conn.Read(s.aheadByte[:]); s.aheadErr != nil {
		s.onEnd()
	}
	s.readAheadDone <- struct{}{}
}

// Read implements io.Reader. It must not be used between beginCall and endCall.
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
