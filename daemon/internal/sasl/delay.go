package sasl

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"
)

const (
	firstDelay = 100 * time.Millisecond // of the first failure; each further one doubles it
	maxDelay   = 5 * time.Second
	// maxHold is how long an answer is held back at most, where many of a pair are in turn: a
	// client that waits for an answer takes a little memory.
	maxHold = 30 * time.Second
	// forgetAfter is how long after its last failure a pair has no failures any more.
	forgetAfter = 15 * time.Minute
	// maxPairs is how many pairs of an address and a user name are known at a time.
	maxPairs = 2048
)

// delays say until when the answer to a failed login is held back: longer with each failure of
// the same user name from the same address, so that passwords cannot be guessed quickly. The
// delay of an answer begins when the answer before it, of the same pair, is due: many
// connections get answers no sooner than one.
//
// The answer to a right password is never held back, so a user is not locked out by the
// failures of others. A right password does not make the failures forgotten either: it would
// help those who guess from the same address, such as that of a pmproxy.
type delays struct {
	seed maphash.Seed

	mu    sync.Mutex // guards pairs
	pairs map[pair]*failures
}

// A pair is an address and the hash of a user name, because names can be long.
type pair struct {
	addr string
	user uint64
}

// failures are those of a pair.
type failures struct {
	n    int
	last time.Time
	due  time.Time // the last answer that is held back
}

func newDelays() *delays {
	return &delays{seed: maphash.MakeSeed(), pairs: make(map[pair]*failures)}
}

// add counts a failure and returns until when its answer is held back. user is "" if the name
// is not known: failures without a name count together.
func (d *delays) add(addr, user string) time.Time {
	// libsasl2 ignores blanks around the name.
	p, now := pair{addr, maphash.String(d.seed, strings.TrimSpace(user))}, time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.pairs[p]
	switch {
	case f == nil:
		if len(d.pairs) >= maxPairs {
			d.evict(now)
		}
		f = new(failures)
		d.pairs[p] = f
	case now.Sub(f.last) >= forgetAfter:
		f.n = 0
	}
	f.last = now
	delay := maxDelay
	if f.n < 10 { // no overflow
		delay = min(firstDelay<<f.n, maxDelay)
	}
	f.n++
	if f.due.Before(now) {
		f.due = now
	}
	f.due = f.due.Add(delay)
	if most := now.Add(maxHold); f.due.After(most) {
		f.due = most
	}
	return f.due
}

// evict removes the pairs without failures any more. If there are none, it removes the pair
// with the fewest failures, of those the oldest: many names with a failure each do not
// replace a name whose password is being guessed.
func (d *delays) evict(now time.Time) {
	var evicted pair
	var least *failures
	for p, f := range d.pairs {
		if now.Sub(f.last) >= forgetAfter {
			delete(d.pairs, p)
		} else if least == nil || f.n < least.n || f.n == least.n && f.last.Before(least.last) {
			evicted, least = p, f
		}
	}
	if len(d.pairs) >= maxPairs {
		delete(d.pairs, evicted)
	}
}
