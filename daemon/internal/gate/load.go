package gate

import (
	"time"

	"github.com/gopcp/pmcd/agents/fairqueue"
)

// maxGroups is how many groups are counted at a time.
const maxGroups = 1024

// A Load says for what clients a Gate was closed.
type Load struct {
	Closed time.Duration   // for how long since the last call of Gate.Load
	Turns  uint64          // of all groups in this time
	Most   fairqueue.Group // which had the most turns
	OfMost uint64          // its turns, or a few less
}

// A load counts turns while a Gate is closed.
type load struct {
	closed time.Duration
	turns  uint64
	groups map[fairqueue.Group]uint64
}

// count counts a turn of a group. Beyond maxGroups it drops groups with few turns, so that
// one with many is found.
func (l *load) count(id fairqueue.Group) {
	if l.groups == nil {
		l.groups = make(map[fairqueue.Group]uint64)
	}
	l.turns++
	if _, ok := l.groups[id]; !ok && len(l.groups) >= maxGroups {
		for other, n := range l.groups { // all lose as much, as in the algorithm of Misra and Gries
			if n <= 1 {
				delete(l.groups, other)
			} else {
				l.groups[other] = n - 1
			}
		}
		return
	}
	l.groups[id]++
}

// Load returns what has happened since the last call.
func (g *Gate) Load() (sum Load) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := &g.load
	sum.Closed, sum.Turns = l.closed, l.turns
	for id, n := range l.groups {
		if n > sum.OfMost {
			sum.Most, sum.OfMost = id, n
		}
	}
	*l = load{}
	return sum
}
