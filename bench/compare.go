package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// The two daemons, in the order in which they run.
const (
	theirs = iota
	ours
	sides
)

var sideNames = [sides]string{"C pmcd", "here"}

// A result holds the measurements of one scenario.
type result struct {
	Scenario string
	About    string
	Sides    [sides]side

	shows []measure
	calm  bool
}

// A side holds the measurements of one daemon.
type side struct {
	Rounds []map[string]float64 // the numbers of each round without an error
	Errors int                  // operations and rounds that failed
	Error  string               // the first
}

// numbers returns a number of all rounds that have it, in order.
func (s *side) numbers(key string) (v []float64) {
	for _, got := range s.Rounds {
		if x, ok := got[key]; ok {
			v = append(v, x)
		}
	}
	slices.Sort(v)
	return v
}

// median returns the median of a number over all rounds.
func (s *side) median(key string) (float64, bool) {
	v := s.numbers(key)
	if len(v) == 0 {
		return 0, false
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2, true
}

// spread returns the ratio of the largest number of all rounds to the smallest, and
// whether there is one.
func (s *side) spread(key string) (float64, bool) {
	v := s.numbers(key)
	if len(v) < 2 || v[0] <= 0 {
		return 0, false
	}
	return v[len(v)-1] / v[0], true
}

// A pair is both daemons with the same setup. A daemon that does not run is nil.
type pair [sides]*daemon

func (p *pair) stop() {
	for i, d := range p {
		if d != nil {
			d.stop()
		}
		p[i] = nil
	}
}

// errInterrupted ends the comparison.
var errInterrupted = errors.New("interrupted")

// compare runs the scenarios. Consecutive scenarios with the same setup use the same
// daemons. The daemons are measured in turns: one is idle while the other works.
func (o *options) compare(picked []scenario, stop <-chan os.Signal) (results []result, err error) {
	remove := func() {}
	defer func() { remove() }()
	var p pair
	defer p.stop()
	var last setup
	for _, s := range picked {
		on := last.on
		if s.setup != last || s.fresh || s.starts {
			p.stop()
			last = s.setup
		}
		if on != last.on {
			remove()
			if remove, err = last.on.add(o.base); err != nil {
				remove = func() {}
				return results, err
			}
		}
		res := result{Scenario: s.name, About: s.about, shows: s.shows, calm: s.calm}
		for range cmp.Or(o.rounds, s.rounds, usualRounds) {
			for i := range p {
				select {
				case <-stop:
					return results, errInterrupted
				default:
				}
				o.round(s, i, &p[i], &res.Sides[i])
				if s.fresh {
					p.stop()
				}
			}
		}
		results = append(results, res)
		for i := range p {
			x, _ := res.Sides[i].median(s.shows[0].key)
			fmt.Fprintf(o.progress, "%s, %s: %s %s; %d errors %s\n", s.name, sideNames[i], s.shows[0].key, number(x), res.Sides[i].Errors, res.Sides[i].Error)
		}
	}
	return results, nil
}

// round runs a scenario once with one daemon, which is started if it does not
// run.
func (o *options) round(s scenario, i int, d **daemon, out *side) {
	r := o.newRun(s.setup, i)
	if s.calm {
		r.time = cmp.Or(o.time, longTime)
	}
	err := func() (err error) {
		if s.starts {
			return s.run(r)
		}
		if *d == nil {
			if *d, err = r.start(); err != nil {
				return err
			}
		}
		r.daemon = *d
		return s.run(r)
	}()
	if *d != nil {
		if err != nil { // perhaps the daemon is about to exit
			select {
			case <-(*d).exited:
			case <-time.After(time.Second):
			}
		}
		if e := (*d).ended(); e != nil {
			err = e
			(*d).stop()
			*d = nil
		}
	}
	if err != nil {
		r.count(timing{errs: 1, err: err})
	}
	if len(r.got) > 0 {
		out.Rounds = append(out.Rounds, r.got)
	}
	out.Errors += r.errs
	if out.Error == "" && r.err != nil {
		out.Error = r.err.Error()
	}
}
