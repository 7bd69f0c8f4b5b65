package session

import (
	"fmt"
	"time"

	"github.com/gopcp/pmcd/internal/fairqueue"
)

// An Overload says for how long there were more requests than could be answered at once, so
// that requests were queued, and which of them had the most.
type Overload struct {
	Time     time.Duration
	Requests uint64 // of all clients in this time
	Most     string // the user at the Unix socket, or the host, with the most of them
	OfMost   uint64 // its requests, or a few less
}

// Overload returns what has happened since the last call.
func (s *Server) Overload() Overload {
	l := s.slots.Load()
	o := Overload{Time: l.Time, Requests: l.Waited, OfMost: l.OfMost}
	if o.OfMost > 0 {
		o.Most = groupName(l.Most)
	}
	return o
}

// groupName returns what a group is for messages.
func groupName(g fairqueue.Group) string {
	switch {
	case !g.Addr.IsValid():
		return fmt.Sprintf("uid %d", g.ID)
	case g.Addr.IsLoopback():
		return "localhost"
	case g.Addr.Is6() && !g.Addr.IsLinkLocalUnicast():
		return g.Addr.String() + "/64"
	}
	return g.Addr.String()
}
