package slots

import (
	"time"

	"github.com/gopcp/pmcd/internal/fairqueue"
)

// maxGroups is how many groups are counted at a time.
const maxGroups = 1024

// A Load says whose requests waited for slots.
type Load struct {
	Time   time.Duration   // in which some waited, in steps of 5 ms
	Waited uint64          // requests that did, before they began
	Most   fairqueue.Group // had the most of these
	OfMost uint64          // a lower bound of their number
}

// A load counts the requests that have waited for slots.
type load struct {
	time   time.Duration
	waited uint64
	groups map[fairqueue.Group]uint64
}

// count counts a request of a group. Beyond maxGroups it uses the algorithm of Misra and
// Gries, which keeps the groups with the most requests.
func (l *load) count(id fairqueue.Group) {
	if l.groups == nil {
		l.groups = make(map[fairqueue.Group]uint64)
	}
	l.waited++
	if _, ok := l.groups[id]; ok || len(l.groups) < maxGroups {
		l.groups[id]++
		return
	}
	for other, n := range l.groups {
		if n <= 1 {
			delete(l.groups, other)
		} else {
			l.groups[other] = n - 1
		}
	}
}

// Load returns what has happened since the last call.
func (p *Pool) Load() (sum Load) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &p.load
	sum.Time, sum.Waited = l.time, l.waited
	for id, n := range l.groups {
		if n > sum.OfMost {
			sum.Most, sum.OfMost = id, n
		}
	}
	*l = load{}
	return sum
}
