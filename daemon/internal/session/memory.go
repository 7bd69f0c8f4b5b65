package session

import (
	"fmt"
	"sync"
	"time"

	"github.com/gopcp/pmcd/agents/fairqueue"
	"github.com/gopcp/pmcd/daemon/internal/conn"
)

// DefaultMemory is the default of [Config.Memory].
var DefaultMemory = MemoryLimits{Profiles: 24 << 20, ClientProfiles: 1 << 20, Requests: 8 << 20}

// MemoryLimits are limits, in bytes, of the memory that pmcd keeps for clients between two
// requests, or until a request is complete. Replies that are not read have their own limits
// (conn.UnreadLimits).
type MemoryLimits struct {
	Profiles       int64 // for the profiles of all clients
	ClientProfiles int64 // for the profiles of one client
	Requests       int64 // for the incomplete requests of all clients
}

// A memory accounts for memory of one kind that pmcd keeps for clients. Groups of clients
// share it. If the limit is reached, the group that uses the most gets no more memory, and
// one of its clients is disconnected if another group needs memory. So no group can keep
// others out.
type memory struct {
	kind  string // "profiles"
	limit int64  // bytes

	mu      sync.Mutex // guards the following, and the fields of accounts
	used    int64
	groups  map[fairqueue.Group]*memoryGroup // only groups that use memory
	evicted int64                            // number of clients that were disconnected
	last    conn.Evicted                     // the last of these
}

type memoryGroup struct {
	used     int64
	accounts map[*account]struct{} // only accounts that use memory
}

// An account is the use of a memory by one client. Only the fields used and ended change.
type account struct {
	client string // its address
	group  fairqueue.Group
	evict  func(err error) // disconnects the client; does not wait

	used  int64
	ended bool
}

// A memoryError is the error if a client gets no memory.
type memoryError struct {
	memory        *memory
	client, group int64 // bytes
	evicted       bool  // the client is disconnected to make room for others
}

func (e *memoryError) Error() string {
	text := fmt.Sprintf("its %s take %d bytes, those of its host or user %d, and those of all clients may take %d", e.memory.kind, e.client, e.group, e.memory.limit)
	if e.evicted {
		text += "; it is disconnected to make room for others"
	}
	return text
}

// hold adds n bytes to the use of a. If that exceeds the limit and the group of a uses the
// most, hold returns an error and adds nothing. If another group uses the most, hold
// disconnects the client of that group that uses the most.
func (m *memory) hold(a *account, n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.used+n > m.limit {
		g := m.largest()
		own := m.groups[a.group]
		if g == nil || g == own || own != nil && own.used+n > g.used {
			e := &memoryError{client: a.used + n, group: n, memory: m}
			if own != nil {
				e.group += own.used
			}
			return e
		}
		var most *account
		for b := range g.accounts {
			if most == nil || b.used > most.used {
				most = b
			}
		}
		e := &memoryError{client: most.used, group: g.used, memory: m, evicted: true}
		m.end(most)
		m.evicted++
		m.last = conn.Evicted{Client: most.client, At: time.Now()}
		most.evict(e)
	}
	m.add(a, n)
	return nil
}

// largest returns the group that uses the most, or nil.
func (m *memory) largest() (most *memoryGroup) {
	for _, g := range m.groups {
		if most == nil || g.used > most.used {
			most = g
		}
	}
	return most
}

// drop subtracts n bytes from the use of a.
func (m *memory) drop(a *account, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(a, -n)
}

// close is called when the client has disconnected.
func (m *memory) close(a *account) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end(a)
}

// end subtracts the use of a, which does not change any more. The caller holds mu.
func (m *memory) end(a *account) {
	m.add(a, -a.used)
	a.ended = true
}

// add adds n bytes, which may be negative. The caller holds mu.
func (m *memory) add(a *account, n int64) {
	if n == 0 || a.ended {
		return
	}
	g := m.groups[a.group]
	if g == nil {
		g = &memoryGroup{accounts: make(map[*account]struct{})}
		if m.groups == nil {
			m.groups = make(map[fairqueue.Group]*memoryGroup)
		}
		m.groups[a.group] = g
	}
	m.used += n
	g.used += n
	a.used += n
	if a.used > 0 {
		g.accounts[a] = struct{}{}
		return
	}
	delete(g.accounts, a)
	if len(g.accounts) == 0 {
		delete(m.groups, a.group)
	}
}

func (m *memory) info() MemoryInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	return MemoryInfo{Used: m.used, Limit: m.limit, Evicted: m.evicted, LastEvicted: m.last}
}

// A clientMemory has the accounts of one client.
type clientMemory struct {
	profiles account
	requests account
	request  int64 // bytes of the current request
}

// openMemory returns what a new client of a group uses.
func openMemory(c conn.Handle, group fairqueue.Group) clientMemory {
	a := account{client: c.Peer().String(), group: group, evict: func(err error) {
		c.Interrupt(err)
		c.Abort()
	}}
	return clientMemory{profiles: a, requests: a}
}

// closeMemory closes the accounts of the client.
func (s *session) closeMemory() {
	s.srv.profiles.close(&s.memory.profiles)
	s.srv.requests.close(&s.memory.requests)
	s.contexts.each(s.srv.decoded.forget)
}

// holdProfile accounts for a profile that replaces old, which may be nil. If it returns an
// error, neither of the two is accounted for.
func (s *session) holdProfile(old, new *profile) error {
	m, a := &s.srv.profiles, &s.memory.profiles
	more := new.size() - old.size()
	s.contexts.bytes += more
	var err error
	switch limit := s.srv.cfg.Memory.ClientProfiles; {
	case more <= 0:
		m.drop(a, -more)
	case s.contexts.bytes > limit:
		err = fmt.Errorf("its profiles take %d bytes, and those of one client may take %d", s.contexts.bytes, limit)
	default:
		err = m.hold(a, more)
	}
	if err != nil {
		m.drop(a, old.size())
		s.contexts.bytes -= new.size()
	}
	return err
}

// freeRequest is the memory for an incomplete request, in bytes, that is not accounted for.
const freeRequest = 4 << 10

// holdRequest accounts for a buffer of n bytes for an incomplete request.
func (s *session) holdRequest(n int64) error {
	if n <= freeRequest || n <= s.memory.request {
		return nil
	}
	if err := s.srv.requests.hold(&s.memory.requests, n-s.memory.request); err != nil {
		return err
	}
	s.memory.request = n
	return nil
}

// dropRequest undoes holdRequest.
func (s *session) dropRequest() {
	if s.memory.request > 0 {
		s.srv.requests.drop(&s.memory.requests, s.memory.request)
		s.memory.request = 0
	}
}
