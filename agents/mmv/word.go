package mmv

import (
	"math"
	"runtime"
	"sync/atomic"
)

// A word is a number of 64 bits that is updated without a lock, while Publish may move it
// from one entry to another. It has the bits of a uint64, an int64 or a float64.
//
// An update takes three steps: it loads the entry, changes the value there with one atomic
// operation, and loads the entry again. If that is the same, a move that follows copies the
// change. If it is not, or is nil because a move is under way, the update takes the lock of
// moves and does the rest: see addLate and setLate.
//
// The collector of garbage unmaps a file after the last update that has one of its entries.
type word struct {
	at       atomic.Pointer[entry]
	registry *Registry
	sentinel bool // the value may be absent
}

// init gives the word its first entry. If values may be absent, it is.
func (w *word) init(r *Registry) {
	e := ownEntry()
	w.registry, w.sentinel = r, r.conf.Sentinel
	if w.sentinel {
		e.value.Store(none)
	}
	w.at.Store(e)
}

// move implements cell. The caller holds Registry.moving.
func (w *word) move(to *entry) {
	from := w.at.Load()
	w.at.Store(nil)
	from.left = from.value.Load()
	to.value.Store(from.left)
	w.at.Store(to)
}

func (w *word) set(bits uint64) {
	e := w.at.Load()
	if e != nil {
		e.value.Store(bits)
		if w.at.Load() == e {
			return
		}
	}
	w.setLate(e, bits)
}

// setLate sets the value although a move may have copied the entry before set changed it.
func (w *word) setLate(e *entry, bits uint64) {
	if w.registry == nil {
		return
	}
	w.registry.moving.Lock()
	defer w.registry.moving.Unlock()
	if e != nil {
		e.left = e.value.Load() // what addLate does not have to add
	}
	w.at.Load().value.Store(bits)
}

// load returns the bits of the value, and those of zero if it is absent.
func (w *word) load() uint64 {
	e := w.at.Load()
	if e == nil {
		if w.registry == nil {
			return 0
		}
		w.registry.moving.Lock()
		defer w.registry.moving.Unlock()
		e = w.at.Load()
	}
	bits := e.value.Load()
	runtime.KeepAlive(e)
	return w.present(bits)
}

// present returns the bits of zero for those of an absent value.
func (w *word) present(bits uint64) uint64 {
	if w.sentinel && bits == none {
		return 0
	}
	return bits
}

func (w *word) add(n uint64) {
	e := w.at.Load()
	if e != nil {
		if w.sentinel {
			w.addTo(e, n)
		} else {
			e.value.Add(n)
		}
		if w.at.Load() == e {
			return
		}
	}
	w.addLate(e, n, (*word).addTo, difference)
}

func difference(now, left uint64) uint64 { return now - left }

func floatDifference(now, left uint64) uint64 {
	return math.Float64bits(math.Float64frombits(now) - math.Float64frombits(left))
}

// addTo adds n to a value that may be absent.
func (w *word) addTo(e *entry, n uint64) {
	for {
		old := e.value.Load()
		if e.value.CompareAndSwap(old, w.present(old)+n) {
			return
		}
	}
}

func (w *word) addFloat(n float64) {
	e := w.at.Load()
	if e != nil {
		w.addFloatTo(e, math.Float64bits(n))
		if w.at.Load() == e {
			return
		}
	}
	w.addLate(e, math.Float64bits(n), (*word).addFloatTo, floatDifference)
}

func (w *word) addFloatTo(e *entry, n uint64) {
	for {
		old := e.value.Load()
		sum := math.Float64frombits(w.present(old)) + math.Float64frombits(n)
		if e.value.CompareAndSwap(old, math.Float64bits(sum)) {
			return
		}
	}
}

// addLate completes the addition of n. If e is nil, nothing was added yet. Otherwise n was
// added in e, and the move of e has copied that or has not. What several updates have added
// since the move, the first of them adds for all.
func (w *word) addLate(e *entry, n uint64, add func(*word, *entry, uint64), minus func(now, left uint64) uint64) {
	if w.registry == nil {
		return
	}
	w.registry.moving.Lock()
	defer w.registry.moving.Unlock()
	if e != nil {
		now := e.value.Load()
		if now == e.left {
			return
		}
		n = minus(w.present(now), w.present(e.left))
		e.left = now
	}
	add(w, w.at.Load(), n)
}
