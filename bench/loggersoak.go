package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// loggerPhases is the number of phases of a soak with loggers. Memory may grow in the first
// startPhases of them: of 90 minutes, these are 20.
const (
	loggerPhases = 18
	startPhases  = 4
)

// loggers returns the parts of the load of a soak with loggers. Each logger fetches metrics of
// the built-in agent and of two PMDAs, once a second.
func (s *soak) loggers() ([]worker, error) {
	kernel, err := s.ids(loggerMetrics...)
	if err != nil {
		return nil, err
	}
	piped, err := s.ids(benchMetrics[:12]...) // of simple and sample
	if err != nil {
		return nil, err
	}
	all := []worker{s.reloads(), s.deaths()}
	ids := append(kernel, piped...)
	step := func(c *client) error {
		begin := time.Now()
		sets, err := c.fetch(ids...)
		if err != nil {
			return err
		}
		for _, set := range sets[:len(kernel)] { // this host need not have all of them
			if len(set.Values) > 0 {
				return s.values(sets[len(kernel):], begin)
			}
		}
		return pdu.ErrnoValue
	}
	// The agent keeps the files open that it reads first here, so they are no growth.
	if err := s.once(step); err != nil {
		return nil, err
	}
	for range s.soakLoggers {
		all = append(all, func(over <-chan struct{}) {
			if !pause(over, rand.N(s.pace)) {
				s.client("fetches", step)(over)
			}
		})
	}
	return all, nil
}

// steady returns an error if memory grows after the first phases. Growth is that of the line
// through all later snapshots, by the method of least squares.
func steady(out io.Writer, at []snapshot, took time.Duration) error {
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
	phase := took / loggerPhases
	fmt.Fprintf(out, "memory is %.1f MB, and grows by %.0f KiB an hour\n", mean/1e6, slope/1024*time.Hour.Hours()/phase.Hours())
	slack := mean / 20
	if took < time.Minute { // pools still fill
		slack = mean/5 + 2<<20
	}
	if growth := slope * (n - 1); growth > slack {
		return fmt.Errorf("memory has grown by %.0f KiB, %.0f are allowed", growth/1024, slack/1024)
	}
	return nil
}
