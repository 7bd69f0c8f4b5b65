package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// The garbage collector lets the heap grow by a percentage of what is in use before it
// collects again, and to at least that percentage of 4 MB. pmcd has 1 MB in use. While 20
// clients fetch once a second, its process has 7.5 MB of its own with Go's 100 percent, and
// 5.8 MB with 50 percent, for a collection each 5 s. But clients that look up 100 names,
// one request after another, cause a collection each few milliseconds, and the requests
// take 20 % more CPU time with 50 percent.
const (
	calmPercent = 50
	busyPercent = 100

	// If the time between two collections is shorter than busyInterval, pmcd is busy. If it
	// is longer than calmInterval, pmcd is calm. With busyPercent the time is at most four
	// times as long, so the two alternate only if the load does.
	busyInterval = 5 * time.Millisecond
	calmInterval = 10 * busyInterval
)

// A heapAdapter chooses the percentage after each collection.
type heapAdapter struct {
	percent int
	last    time.Time // the last collection; zero before the first
}

// adaptHeap sets calmPercent, and changes it from now on as the load changes, unless GOGC
// is set. It is called after the start, which needs fewer collections so; further calls,
// at reloads, have no effect.
var adaptHeap = sync.OnceFunc(func() {
	if os.Getenv("GOGC") != "" {
		return
	}
	h := &heapAdapter{percent: calmPercent}
	runtime.SetFinalizer(h, (*heapAdapter).finalize)
	debug.SetGCPercent(h.percent)
})

// finalize is called after each collection, because nothing refers to h.
func (h *heapAdapter) finalize() {
	if h.collected(time.Now()) {
		debug.SetGCPercent(h.percent)
	}
	runtime.SetFinalizer(h, (*heapAdapter).finalize)
}

// collected is told of a collection, and reports whether the percentage changes.
func (h *heapAdapter) collected(now time.Time) bool {
	interval, before := now.Sub(h.last), h.percent
	h.last = now
	switch {
	case interval < busyInterval:
		h.percent = busyPercent
	case interval > calmInterval:
		h.percent = calmPercent
	}
	return h.percent != before
}
