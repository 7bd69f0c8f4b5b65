package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A soak is a daemon under load. Agents of its setup are killed now and then, and the
// configuration changes.
type soak struct {
	*run
	pace  time.Duration // between two requests of a client
	every time.Duration // between two reloads, and between two deaths of agents

	mu      sync.Mutex // guards the following
	done    map[string]int
	downs   map[int]int // by domain: how often its agent went down or came back
	excused int         // failures while the agent was down
	failed  int         // other failures
	first   []string    // the first of these
}

// soakPhases is the number of pauses of the load, in which a snapshot is taken. Memory may grow in the
// first startPhases of them: of 90 minutes, these are 20.
const (
	soakPhases  = 18
	startPhases = 4
)

// A snapshot holds the resources of an idle daemon.
type snapshot struct {
	agents                  int // reloads change their number
	goroutines, descriptors int
	rss                     int64 // bytes
}

// runSoak runs the load and reports on out. It fails if a request has failed whose
// agent was not down at that moment, or if goroutines, descriptors or memory have
// grown.
func runSoak(o *options, out io.Writer, stop <-chan os.Signal) (err error) {
	phase := o.soak / soakPhases
	s := &soak{run: o.newRun(setup{}, ours), pace: pace, every: time.Second, done: map[string]int{}, downs: map[int]int{}}
	if o.soakLoggers > 0 {
		s.setup.agents, s.pace, s.every = attackAgents, min(time.Second, phase/4), max(phase/30, 500*time.Millisecond)
	}
	if s.daemon, err = s.start(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, s.tail())
		}
		err = errors.Join(err, s.finish())
	}()
	workers, err := s.workers()
	if err != nil {
		return err
	}
	var at []snapshot
	for n := range soakPhases {
		over := make(chan struct{})
		var wg sync.WaitGroup
		for _, w := range workers {
			wg.Go(func() { w(over) })
		}
		select {
		case <-stop:
			err = errInterrupted
		case <-time.After(phase):
		}
		close(over)
		wg.Wait()
		if err = errors.Join(err, s.ended()); err != nil {
			return err
		}
		now, err := s.snapshot(at)
		if err != nil {
			return err
		}
		at = append(at, now)
		fmt.Fprintf(out, "%2d of %d: %d agents, %d goroutines, %d descriptors, %.1f MB; %s\n",
			n+1, soakPhases, now.agents, now.goroutines, now.descriptors, float64(now.rss)/1e6, s.tally())
		if s.failed > 0 {
			return fmt.Errorf("%d failed:\n%s", s.failed, strings.Join(s.first, "\n"))
		}
	}
	slack := 0.05
	switch {
	case o.soak < time.Minute: // pools still fill
		slack = 0.3
	case o.soakLoggers == 0: // the load varies
		slack = 0.15
	}
	return steady(out, at, phase, slack)
}

// steady returns an error if memory grows after the first phases, by more than slack times its
// size. Growth is that of the line through all later snapshots, by the method of least squares.
func steady(out io.Writer, at []snapshot, phase time.Duration, slack float64) error {
	at = at[startPhases:]
	n := float64(len(at))
	middle, mean := (n-1)/2, 0.0
	for _, s := range at {
		mean += float64(s.rss) / n
	}
	var xy, xx float64
	for i, s := range at {
		x := float64(i) - middle
		xy += x * (float64(s.rss) - mean)
		xx += x * x
	}
	slope := xy / xx // bytes a phase
	fmt.Fprintf(out, "memory is %.1f MB, and grows by %.0f KiB an hour\n", mean/1e6, slope/1024*time.Hour.Hours()/phase.Hours())
	if growth := slope * (n - 1); growth > slack*mean {
		return fmt.Errorf("memory has grown by %.0f KiB, %.0f are allowed", growth/1024, slack*mean/1024)
	}
	return nil
}

// snapshot waits until no client is connected, all agents are ready, and there are
// no more goroutines and descriptors than in the first snapshot with as many
// agents.
func (s *soak) snapshot(before []snapshot) (now snapshot, err error) {
	err = s.poll(20*time.Millisecond, func() error {
		r, err := s.status()
		if err != nil {
			return err
		}
		now = snapshot{len(r.Agents), r.Goroutines, descriptors(s.pid()), rss(s.pid())}
		if len(r.Clients) > 0 {
			return fmt.Errorf("%d clients are left", len(r.Clients))
		}
		if i := slices.IndexFunc(before, func(b snapshot) bool { return b.agents == now.agents }); i >= 0 {
			if b := before[i]; now.goroutines > b.goroutines || now.descriptors > b.descriptors {
				return fmt.Errorf("%d goroutines and %d descriptors are left, and not %d and %d",
					now.goroutines, now.descriptors, b.goroutines, b.descriptors)
			}
		}
		for _, a := range r.Agents {
			if a.State != "ready" {
				return fmt.Errorf("agent %s is %s", a.Name, a.State)
			}
		}
		return nil
	})
	return now, err
}

// status has the fields of pmcdctl status --json that the soak needs.
type status struct {
	Goroutines int
	Clients    []struct{}
	Agents     []struct {
		Name, State string
		Domain, PID int
	}
	Reloads struct {
		Count int
		Error string
	}
}

func (s *soak) status() (st status, err error) {
	conn, err := net.DialTimeout("unix", filepath.Join(s.dir, "sock.ctl"), connectTimeout)
	if err != nil {
		return st, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(replyTimeout))
	return st, json.NewDecoder(conn).Decode(&st)
}

// tally describes the requests so far.
func (s *soak) tally() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.done)) {
		all = append(all, fmt.Sprintf("%d %s", s.done[name], name))
	}
	return fmt.Sprintf("%s; %d excused, %d failed", strings.Join(all, ", "), s.excused, s.failed)
}

// finish stops the daemon. It fails if the daemon does not exit, or has logged a
// panic or a data race.
func (s *soak) finish() error {
	defer s.stop()
	if err := s.ended(); err != nil {
		return err
	}
	if _, err := s.end(20 * time.Second); err != nil {
		return err
	}
	for _, f := range []string{"out", "log/pmcd.log"} {
		text, err := os.ReadFile(filepath.Join(s.dir, f))
		if err != nil {
			return err
		}
		for _, bad := range []string{"DATA RACE", "panic:"} {
			if _, after, found := strings.Cut(string(text), bad); found {
				return fmt.Errorf("%s: %s%.4000s", f, bad, after)
			}
		}
	}
	if !s.cmd.ProcessState.Success() {
		return fmt.Errorf("pmcd has ended with %v", s.cmd.ProcessState)
	}
	return nil
}

// goes records that the agent of a domain goes down, or that it has replied again.
func (s *soak) goes(domain int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.downs[domain]++
}

// begin returns what excuse needs to know of the time before a request.
func (s *soak) begin() map[int]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.downs)
}

// excuse returns nil in place of err if the agent of the domain was down at some time since begin.
func (s *soak) excuse(err error, begin map[int]int, domain int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := begin[domain]; err == nil || n%2 == 0 && n == s.downs[domain] {
		return err
	}
	s.excused++
	return nil
}

// did counts a request or a failure.
func (s *soak) did(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[name]++
	if err != nil {
		if s.failed++; len(s.first) < 10 {
			s.first = append(s.first, fmt.Sprintf("%s %s: %v", time.Now().Format(time.TimeOnly), name, err))
		}
	}
}
