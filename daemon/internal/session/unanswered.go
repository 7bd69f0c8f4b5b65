package session

import (
	"errors"
	"sync"
	"time"

	"github.com/gopcp/pmcd/agents/fairqueue"
	"github.com/gopcp/pmcd/daemon/internal/conn"
)

// maxUnanswered is how many clients of a group may wait for the answer to their first request: for a
// slot, the look-up of a user or a TLS handshake. Each has a descriptor and some 10 KB, also
// if the client has disconnected meanwhile. Clients that have sent no request, or a part of one,
// do not count.
const maxUnanswered = 4096

// errUnanswered ends the session of a client above this limit, before it is served.
var errUnanswered = errors.New("too many clients of its host or user have had no answer yet")

// awaitAnswer is called when there is input of the client. Until its first answer it counts as
// unanswered. The error is errUnanswered.
func (s *session) awaitAnswer() error {
	if s.answered || s.waiting {
		return nil
	}
	if s.waiting = s.srv.unanswered.begin(s.client.Key.Group, s.client.Addr); !s.waiting {
		return errUnanswered
	}
	return nil
}

// noAnswer is called when the client waits for no answer.
func (s *session) noAnswer() {
	if s.waiting {
		s.waiting = false
		s.srv.unanswered.end(s.client.Key.Group)
	}
}

// unanswered counts the clients of each group that are being served and have had no answer.
type unanswered struct {
	mu      sync.Mutex // guards the following
	groups  map[fairqueue.Group]int
	ended   int64        // clients, above the limit
	lastEnd conn.Evicted // the last of these
}

// begin counts a client, and reports false if there are too many of its group.
func (u *unanswered) begin(g fairqueue.Group, addr string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.groups[g] >= maxUnanswered {
		u.ended++
		u.lastEnd = conn.Evicted{Client: addr, At: time.Now()}
		return false
	}
	if u.groups == nil {
		u.groups = make(map[fairqueue.Group]int)
	}
	u.groups[g]++
	return true
}

// end counts a client no longer: it has had its answer, or its session ends.
func (u *unanswered) end(g fairqueue.Group) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.groups[g]--; u.groups[g] == 0 {
		delete(u.groups, g)
	}
}

// Unanswered returns how many clients of the group with the most of them have had no answer yet,
// with the limit for a group.
func (s *Server) Unanswered() MemoryInfo {
	u := &s.unanswered
	u.mu.Lock()
	defer u.mu.Unlock()
	most := 0
	for _, n := range u.groups {
		most = max(most, n)
	}
	return MemoryInfo{Used: int64(most), Limit: maxUnanswered, Evicted: u.ended, LastEvicted: u.lastEnd}
}
