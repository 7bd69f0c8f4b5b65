package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/pdu/pmapi"
)

// reload changes the name space and pmcd.conf in turn.
func (s *soak) reload(i int) error {
	if i%2 == 0 {
		name := fmt.Sprintf("soak%d", i)
		if err := writePMNS(filepath.Join(s.dir, "pmns"), 0, name); err != nil {
			return err
		}
		if err := s.hangup(); err != nil {
			return err
		}
		// Perhaps the reload was for the SIGHUP of another worker, before this one.
		return s.with(func(c *pmapi.Client) error {
			return s.poll(5*time.Millisecond, func() error {
				_, err := c.Lookup(context.Background(), name)
				return err
			})
		})
	}
	agents := s.setup
	if i%4 != 3 {
		agents.delay = time.Millisecond // the line of another agent
	}
	text, err := agents.conf(true)
	if err == nil {
		err = replace(filepath.Join(s.dir, "conf"), []byte(text))
	}
	if err != nil {
		return err
	}
	return s.hangup()
}

// hangup sends SIGHUP and waits until pmcd has reloaded.
func (s *soak) hangup() error {
	before, err := s.status()
	if err == nil {
		err = syscall.Kill(s.pid(), syscall.SIGHUP)
	}
	if err != nil {
		return err
	}
	return s.poll(5*time.Millisecond, func() error {
		now, err := s.status()
		if err == nil && now.Reloads.Count == before.Reloads.Count {
			err = errors.New("SIGHUP has no effect")
		}
		if err == nil && now.Reloads.Error != "" {
			err = errors.New(now.Reloads.Error)
		}
		return err
	})
}

// kill kills an agent, another one each time, and waits until its metrics have values again.
func (s *soak) kill(i int) error {
	agents := []struct {
		domain int
		prefix string // of metrics
	}{{domainSimple, "simple."}, {domainSample, "sample."}, {domainLinux, "hinv."}}
	if s.setup.agents != benchAgents {
		agents = agents[:2] // linux is built in
	}
	a := agents[i%len(agents)]
	var names []string
	for _, name := range benchMetrics {
		if strings.HasPrefix(name, a.prefix) {
			names = append(names, name)
		}
	}
	old, err := s.process(a.domain)
	if err != nil {
		return err
	}
	s.goes(a.domain)
	defer s.goes(a.domain)
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		return err
	}
	// pmcd restarts an agent that has died often after a minute, or at SIGHUP.
	asked := time.Now()
	if err := s.poll(5*time.Millisecond, func() error {
		if time.Since(asked) > 2*time.Second {
			asked = time.Now()
			if err := syscall.Kill(s.pid(), syscall.SIGHUP); err != nil {
				return err
			}
		}
		now, err := s.process(a.domain)
		if now == old {
			err = fmt.Errorf("agent of domain %d has not been restarted", a.domain)
		}
		return err
	}); err != nil {
		return err
	}
	_, err = s.ready(names...)
	return err
}

// process returns the process of the agent of a domain.
func (s *soak) process(domain int) (pid int, err error) {
	st, err := s.status()
	for _, a := range st.Agents {
		if a.Domain == domain && a.PID != 0 {
			return a.PID, err
		}
	}
	return 0, errors.Join(err, fmt.Errorf("no process of domain %d", domain))
}
