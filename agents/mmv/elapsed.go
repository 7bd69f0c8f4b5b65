package mmv

import (
	"sync"
	"time"
)

// An Elapsed is the time that a program has spent in an activity, in microseconds. Clients
// see it increase while the activity is under way. If that is under way several times at
// once, the time counts once: it is the time for which the activity was busy.
//
// For the sum of the durations of activities that overlap, use a [Counter] with units of
// time.
type Elapsed struct {
	mu       sync.Mutex // guards the following, since an update is several writes
	at       *entry
	underway int
	began    time.Time
	total    time.Duration // without the time since began
}

func (e *Elapsed) init(r *Registry) {
	e.at = ownEntry()
	if r.conf.Sentinel {
		e.at.value.Store(none)
	}
}

// move implements cell.
func (e *Elapsed) move(to *entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	to.value.Store(e.at.value.Load())
	to.extra.Store(e.at.extra.Load())
	e.at = to
}

// Start begins the activity.
func (e *Elapsed) Start() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at == nil {
		return
	}
	e.underway++
	if e.underway > 1 {
		return
	}
	e.began = time.Now()
	if e.total == 0 {
		e.at.value.Store(0) // it may be absent
	}
	e.at.extra.Store(uint64(-e.began.UnixMicro()))
}

// Stop ends the activity. It does nothing if the activity is not under way.
func (e *Elapsed) Stop() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.underway == 0 {
		return
	}
	e.underway--
	if e.underway > 0 {
		return
	}
	// The duration is that of the monotonic clock. Readers have only the other one.
	e.total += time.Since(e.began)
	// A reader between these two writes counts the last activity twice. The format has no
	// way to avoid that.
	e.at.value.Store(uint64(e.total.Microseconds()))
	e.at.extra.Store(0)
}

// Value returns the time so far.
func (e *Elapsed) Value() time.Duration {
	if e == nil {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.underway > 0 {
		return e.total + time.Since(e.began)
	}
	return e.total
}
