package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/pdu/pmapi"
)

// reloads changes the name space and pmcd.conf in turn.
func (s *soak) reloads() worker {
	i := 0
	return func(over <-chan struct{}) {
		for ; !pause(over, s.every); i++ {
			s.did("reloads", s.reload(i))
		}
	}
}

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
		agents.delay = extraAgent.delay
	}
	text, err := agents.conf(true)
	if err != nil {
		return err
	}
	if err := replace(filepath.Join(s.dir, "conf"), []byte(text)); err != nil {
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

// deaths kills agents in turn. It kills the next one some time after the last one
// has replied again.
func (s *soak) deaths() worker {
	agents := []struct {
		domain int
		prefix string // of metrics
	}{{domainSimple, "simple."}, {domainSample, "sample."}, {domainLinux, "hinv."}}
	if s.setup.agents != benchAgents {
		agents = agents[:2] // linux is built in
	}
	i := 0
	return func(over <-chan struct{}) {
		for ; !pause(over, s.every); i++ {
			a := agents[i%len(agents)]
			s.did("deaths", s.kill(a.domain, a.prefix))
		}
	}
}

// kill kills the agent of a domain and waits until its metrics, those whose
// names begin with prefix, have values again.
func (s *soak) kill(domain int, prefix string) error {
	st, err := s.status()
	if err != nil {
		return err
	}
	var names []string
	for _, name := range benchMetrics {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	i := slices.IndexFunc(st.Agents, func(a soakAgent) bool { return a.Domain == domain })
	if i < 0 || st.Agents[i].PID == 0 {
		return fmt.Errorf("no process of domain %d", domain)
	}
	old := st.Agents[i].PID
	s.down.begin(domain)
	defer s.down.end(domain)
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
		st, err := s.status()
		if err == nil && !slices.ContainsFunc(st.Agents, func(a soakAgent) bool {
			return a.Domain == domain && a.PID != 0 && a.PID != old
		}) {
			err = fmt.Errorf("agent of domain %d has not been restarted", domain)
		}
		return err
	}); err != nil {
		return err
	}
	_, err = s.ready(names...)
	return err
}
