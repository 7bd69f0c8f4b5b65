package daemon

import (
	"fmt"
	"maps"
	"sync"
	"time"
)

// A rate keeps what many clients can cause to one line a minute.
type rate struct {
	mu   sync.Mutex // guards the following
	last map[string]rated
}

type rated struct {
	since      time.Time
	suppressed int
}

// printf logs a warning, unless one with the same key was logged in the last
// minute: then the next that is logged says how many were not.
func (r *rate) printf(d *Daemon, key, format string, args ...any) {
	if suppressed, ok := r.pass(key); ok {
		d.log.Warn(fmt.Sprintf(format, args...) + suppressed)
	}
}

// pass reports whether to log a line with that key, and what to say in it of
// those that were not logged.
func (r *rate) pass(key string) (suppressed string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	was, ok := r.last[key]
	if ok && now.Sub(was.since) < time.Minute {
		was.suppressed++
		r.last[key] = was
		return "", false
	}
	if r.last == nil {
		r.last = make(map[string]rated)
	}
	if len(r.last) > 1000 { // addresses are part of keys
		maps.DeleteFunc(r.last, func(_ string, e rated) bool { return now.Sub(e.since) > time.Minute })
	}
	if len(r.last) < 2000 {
		r.last[key] = rated{since: now}
	}
	if was.suppressed > 0 {
		suppressed = fmt.Sprintf(" (%d suppressed)", was.suppressed)
	}
	return suppressed, true
}
