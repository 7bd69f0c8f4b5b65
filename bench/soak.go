package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A soak is a daemon under mixed load. Agents of its setup are killed now and
// then, and the configuration changes.
type soak struct {
	*run
	out  io.Writer
	down downtimes

	pace  time.Duration // between two requests of a client
	every time.Duration // between two reloads, and between two deaths of agents

	mu      sync.Mutex // guards the following
	done    map[string]int
	excused int      // failures while the agent was down
	failed  int      // other failures
	first   []string // the first of these
}

// soakPhases is the number of pauses of the load, in which a snapshot is taken.
const soakPhases = 10

// extraAgent is the line that reloads add and remove.
var extraAgent = setup{delay: time.Millisecond}

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
	s := &soak{run: &run{options: o, got: map[string]float64{}, ours: true}, out: out, done: map[string]int{}, pace: pace, every: time.Second}
	phases := soakPhases
	if o.soakLoggers > 0 {
		phases = loggerPhases
		phase := o.soak / loggerPhases
		s.setup.agents, s.pace, s.every = attackAgents, min(time.Second, phase/4), max(phase/30, 500*time.Millisecond)
	}
	d, err := start(o.base, o.pmcd, s.setup, true)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, d.tail())
		}
		err = errors.Join(err, finish(d))
	}()
	if _, err := d.ready(benchMetrics...); err != nil {
		return err
	}
	s.daemon = d
	workers, err := s.workers()
	if err != nil {
		return err
	}
	var at []snapshot
	for phase := range phases {
		over := make(chan struct{})
		var wg sync.WaitGroup
		for _, w := range workers {
			wg.Go(func() { w(over) })
		}
		interrupted := false
		select {
		case <-stop:
			interrupted = true
		case <-time.After(o.soak / time.Duration(phases)):
		}
		close(over)
		wg.Wait()
		if interrupted {
			return errInterrupted
		}
		if err := d.ended(); err != nil {
			return err
		}
		now, err := s.snapshot(at)
		if err != nil {
			return err
		}
		at = append(at, now)
		fmt.Fprintf(out, "%2d of %d: %d agents, %d goroutines, %d descriptors, %.1f MB; %s\n",
			phase+1, phases, now.agents, now.goroutines, now.descriptors, float64(now.rss)/1e6, s.tally())
		if s.failed > 0 {
			return fmt.Errorf("%d failed:\n%s", s.failed, strings.Join(s.first, "\n"))
		}
	}
	if o.soakLoggers > 0 {
		return steady(out, at, o.soak)
	}
	return flat(at, o.soak)
}

// flat returns an error if memory has grown. It compares the maximum of the second
// half with that of the first half, without the first phase, in which pools fill.
// After a short load it allows more growth.
func flat(at []snapshot, took time.Duration) error {
	most := func(part []snapshot) (n int64) {
		for _, s := range part {
			n = max(n, s.rss)
		}
		return n
	}
	before, after := most(at[1:len(at)/2]), most(at[len(at)/2:])
	slack := before / 10
	if took < time.Minute {
		slack = before / 5
	}
	if after > before+slack+2<<20 {
		return fmt.Errorf("memory has grown from %d to %d KiB", before>>10, after>>10)
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
	Agents     []soakAgent
	Reloads    struct {
		Count int
		Error string
	}
}

type soakAgent struct {
	Name, State string
	Domain, PID int
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
	for _, name := range soakNames {
		all = append(all, fmt.Sprintf("%d %s", s.done[name], name))
	}
	return fmt.Sprintf("%s; %d excused, %d failed", strings.Join(all, ", "), s.excused, s.failed)
}

// finish stops the daemon. It fails if the daemon does not exit, or has logged a
// panic or a data race.
func finish(d *daemon) error {
	defer d.stop()
	if err := d.ended(); err != nil {
		return err
	}
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-d.exited:
	case <-time.After(20 * time.Second):
		return errors.New("pmcd has not exited 20 s after SIGTERM")
	}
	for _, f := range []string{"out", "log/pmcd.log"} {
		text, err := os.ReadFile(filepath.Join(d.dir, f))
		if err != nil {
			return err
		}
		for _, bad := range []string{"DATA RACE", "panic:"} {
			if _, after, found := strings.Cut(string(text), bad); found {
				return fmt.Errorf("%s: %s%.4000s", f, bad, after)
			}
		}
	}
	if !d.cmd.ProcessState.Success() {
		return fmt.Errorf("pmcd has ended with %v", d.cmd.ProcessState)
	}
	return nil
}

// downtimes are the times at which agents were down, by domain.
type downtimes struct {
	mu    sync.Mutex
	since map[int]bool
	until map[int]time.Time
}

// begin records that an agent goes down, end that it has replied again.
func (d *downtimes) begin(domain int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.since == nil {
		d.since, d.until = map[int]bool{}, map[int]time.Time{}
	}
	d.since[domain] = true
}

func (d *downtimes) end(domain int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.since, domain)
	d.until[domain] = time.Now()
}

// within reports whether the agent was down at some time since begin.
func (d *downtimes) within(domain int, begin time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.since[domain] || !d.until[domain].Before(begin)
}

// excuse returns nil in place of err if one of the agents was down.
func (s *soak) excuse(err error, begin time.Time, domains ...int) error {
	if err == nil {
		return nil
	}
	for _, domain := range domains {
		if s.down.within(domain, begin) {
			s.mu.Lock()
			s.excused++
			s.mu.Unlock()
			return nil
		}
	}
	return err
}

// values returns an error unless all sets have values. Sets of agents that were
// down may be empty.
func (s *soak) values(sets []pdu.ValueSet, begin time.Time) error {
	for i := range sets {
		_, err := count(sets[i:i+1], true)
		if err := s.excuse(err, begin, sets[i].PMID.Domain()); err != nil {
			return err
		}
	}
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
