package roothelper

import (
	"fmt"

	"github.com/gopcp/pmcd/pdu"
)

// reserve adds a process for m, which is not started yet.
func (s *server) reserve(m message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	domain := int(m.domain)
	switch {
	case m.domain > pdu.MaxDomain:
		return fmt.Errorf("no agent has domain %d", m.domain)
	case s.processes[m.id] != nil:
		return fmt.Errorf("process id %d is already in use", m.id)
	case s.perDomain[domain] >= maxProcesses:
		return fmt.Errorf("this agent already has %d processes", maxProcesses)
	}
	s.processes[m.id] = &process{domain: domain}
	s.perDomain[domain]++
	return nil
}

// release undoes reserve.
func (s *server) release(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.perDomain[s.processes[id].domain]--
	delete(s.processes, id)
}
