package daemon

import (
	"io"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents/rawio"
)

// A fastLane is for the client that alone keeps the daemon busy, such as a
// logger at the turn of a minute. Its line is direct. There is one place.
type fastLane struct {
	turns atomic.Uint64 // of all sessions
	taken atomic.Bool
}

const (
	eager = 8                // requests without a pause, and without one of another's, lead into the lane
	pause = time.Millisecond // between a reply and the next request
	waits = 16               // in vain, more than quick requests, lead out of it; so does another's turn
)

// awaitLane waits for input on a direct line. It reports false if none came in
// time: then the line is no longer direct.
func (s *session) awaitLane() bool {
	w := s.newWork()
	var err error = syscall.EAGAIN
	for first := true; s.vain < waits && s.yield(); first = false {
		var n int
		n, err = s.line.recv(w.in[:cap(w.in)])
		if n > 0 {
			w.in = w.in[:n]
			s.input = w
			if first && s.vain > 0 {
				s.vain--
			}
			if s.others() {
				s.leaveLane()
			}
			return true
		}
		if err != syscall.EAGAIN || s.others() || s.refused.Load() != 0 {
			break
		}
		s.vain++
	}
	w.putBack()
	s.leaveLane()
	if err == rawio.ErrRights {
		s.err = err
	} else if err != syscall.EAGAIN {
		s.err = io.EOF
	}
	return s.err != nil
}

// yield lets other goroutines run now and then. One that for 10 ms does nothing
// but system calls has its place in the scheduler taken, whether another needs it
// or not, and then sysmon of package runtime looks every 20 µs for a while: that
// was 4 % of the CPU time.
//
// It reports false if there is no fast lane any more: the runtime follows changes
// of the CPUs that the daemon may use.
func (s *session) yield() bool {
	now := time.Now()
	if now.Sub(s.yielded) <= patience {
		return true
	}
	s.yielded = now
	runtime.Gosched()
	return canWait()
}

// canWait reports whether a thread may wait for one client. Go code runs on so
// many threads at a time, and one that waits may count for milliseconds: others
// need one.
func canWait() bool { return runtime.GOMAXPROCS(0) > 1 }

// others reports whether another session had a turn since the last one of s began.
func (s *session) others() bool { return s.d.lane.turns.Load() != s.turn }

// enterLane makes the line direct if its client is eager. A wait has just ended
// that began at since.
func (s *session) enterLane(since time.Time) {
	f := &s.d.lane
	if s.others() || time.Since(since) > pause {
		s.eager = 0
		return
	}
	s.eager++
	if s.eager < eager {
		return
	}
	s.eager, s.vain = 0, 0
	if !canWait() || !f.taken.CompareAndSwap(false, true) {
		return
	}
	if !s.line.heat() {
		f.taken.Store(false)
		return
	}
	// Another thread has to look after the poller when this one does no more.
	// It will, as soon as it has nothing else to do.
	go func() {}()
}

// leaveLane has the poller look after the line, if it does not.
func (s *session) leaveLane() {
	if s.line.direct() {
		s.line.cool()
		if s.refused.Load() != 0 {
			s.line.hurry() // it was direct when refuse did so
		}
		s.d.lane.taken.Store(false)
	}
}
