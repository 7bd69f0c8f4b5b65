package conn

import (
	"fmt"
	"sync"
	"time"
)

// maxPause is the longest time between two tries to accept a client that waits.
const maxPause = time.Second

// A pause is how long an acceptor stays away from a listening socket after an
// accept that failed. It doubles with each failure.
type pause time.Duration

func (p *pause) next() time.Duration {
	*p = min(max(2**p, pause(5*time.Millisecond)), pause(maxPause))
	return time.Duration(*p)
}

// A stall is the condition that clients wait and cannot be accepted.
type stall struct {
	mu    sync.Mutex // guards the following, which goroutines of the acceptor change
	why   string     // "" if there is no stall
	until time.Time  // the stall is over then, at the latest
	timer *time.Timer
}

// begin records that a client was not accepted, and why. It reports whether that is new.
// As long as the client waits there is another begin after a pause. Without one the
// client has gone, the stall is over, and expired is called.
func (s *stall) begin(why string, expired func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.current()
	s.stop()
	const most = 2 * maxPause
	s.why, s.until = why, time.Now().Add(most)
	s.timer = time.AfterFunc(most, expired)
	return was != why
}

// end records that there is no stall any more. It reports whether there was one.
func (s *stall) end() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.current()
	s.stop()
	s.why = ""
	return was != ""
}

// stop stops the timer, if there is one. The caller holds mu.
func (s *stall) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// reason returns why clients are not accepted, or "".
func (s *stall) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current()
}

// current is reason for a caller that holds mu.
func (s *stall) current() string {
	if time.Now().After(s.until) {
		return ""
	}
	return s.why
}

// acceptText says that a client cannot be accepted because of err.
func acceptText(err error) string {
	return fmt.Sprintf("no client can be accepted: %v; those that are connected are served, and others wait", err)
}

// fullText says that there are as many clients as there may be.
func (l *Limit) fullText() string {
	return fmt.Sprintf("%d clients are connected, as many as RLIMIT_NOFILE allows beside what agents need; others wait until some leave; raise it (LimitNOFILE=, ulimit -n) and restart pmcd", l.open.Load())
}

// notAccepted says in the log, and in Problems, why a client that waits is not accepted.
// It is called again as long as the client waits, after a pause.
func (a *Acceptor) notAccepted(why string) {
	a.warn("accept", "AcceptNewClient: {error}", "error", why)
	if a.stall.begin(why, a.changed) {
		a.changed()
	}
}

// acceptedAgain is called when a client was accepted at a socket where one was not before.
func (a *Acceptor) acceptedAgain() {
	if a.stall.end() {
		a.changed()
	}
}

// count changes the number of open connections by n.
func (a *Acceptor) count(n int64) {
	now, most := a.open.Add(n), a.most.Load()
	if most > 0 && (now >= most) != (now-n >= most) {
		a.changed()
	}
}

// Problems returns why clients are not accepted at the moment, and whether there are
// as many as there may be. It returns nothing if all is well. Any goroutine may call it.
func (a *Acceptor) Problems() []string {
	if a.full() {
		return []string{a.fullText()}
	}
	if why := a.stall.reason(); why != "" {
		return []string{why}
	}
	return nil
}
