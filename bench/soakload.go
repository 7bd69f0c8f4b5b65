package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// pace is the pause between two requests of a client of the soak. Without pauses,
// the daemon would never be idle, and its idle states would not be tested.
const pace = time.Millisecond

// A worker is a part of the load. It returns when over is closed.
type worker func(over <-chan struct{})

// workers returns all parts of the load: that of loggers, each of which fetches metrics of the
// built-in agent and of two PMDAs, or one of requests of all kinds.
func (s *soak) workers() ([]worker, error) {
	all := []worker{s.repeat("reloads", s.reload), s.repeat("deaths", s.kill)}
	if s.soakLoggers > 0 {
		kernel, err := s.ids(loggerMetrics...)
		if err != nil {
			return nil, err
		}
		piped, err := s.ids(benchMetrics[:12]...) // of simple and sample
		if err != nil {
			return nil, err
		}
		step := s.fetches(append(kernel, piped...), len(kernel))
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
	ids, err := s.ids(benchMetrics...)
	if err != nil {
		return nil, err
	}
	qs, err := s.queries()
	if err != nil {
		return nil, err
	}
	all = append(all, s.connects, s.idleClients, s.client("stores", s.store()))
	for range 3 {
		all = append(all,
			s.client("fetches", s.fetches(ids, 0)),
			s.client("descriptors", s.descriptors(ids)),
			// Their replies are always the same.
			s.client("look-ups", func(c *client) error { return qs[rand.IntN(len(qs))].ask(c) }))
	}
	return all, nil
}

// repeat calls step again and again, with the number of the call.
func (s *soak) repeat(name string, step func(i int) error) worker {
	i := 0
	return func(over <-chan struct{}) {
		for ; !pause(over, s.every); i++ {
			s.did(name, step(i))
		}
	}
}

// client calls step again and again with one connection. It counts the errors of
// step and a broken connection as failures.
func (s *soak) client(name string, step func(c *client) error) worker {
	return func(over <-chan struct{}) {
		var c *client
		for !pause(over, s.pace) {
			var err error
			if c == nil {
				c, err = s.dial()
			}
			if err == nil {
				err = step(c)
			}
			s.did(name, err)
			if isBroken(err) && c != nil {
				c.Close()
				c = nil
			}
		}
		if c != nil {
			c.Close()
		}
	}
}

// pause waits for d and reports whether it is over.
func pause(over <-chan struct{}, d time.Duration) bool {
	select {
	case <-over:
		return true
	case <-time.After(d):
		return false
	}
}

// fetches fetches metrics, each of which has values unless its agent was down: of the first some,
// not all need to have them. If there are none such, it fetches some or all of the metrics.
func (s *soak) fetches(ids []pdu.PMID, some int) func(c *client) error {
	return func(c *client) error {
		ids := ids
		if some == 0 {
			ids = ids[rand.IntN(len(ids)):]
		}
		begin := s.begin()
		sets, err := c.fetch(ids...)
		if err == nil && some > 0 {
			_, err = count(sets[:some], false)
		}
		if err != nil {
			return err
		}
		for i := some; i < len(sets); i++ {
			_, err := count(sets[i:i+1], true)
			if err := s.excuse(err, begin, ids[i].Domain()); err != nil {
				return err
			}
		}
		return nil
	}
}

// descriptors requests the descriptors of all metrics and of one.
func (s *soak) descriptors(ids []pdu.PMID) func(c *client) error {
	return func(c *client) error {
		begin := s.begin()
		all, err := ask[*pdu.Descs](c, &pdu.DescIDs{PMIDs: ids})
		if err != nil {
			return err
		}
		if len(all.Descs) != len(ids) {
			return fmt.Errorf("%d descriptors for %d metrics", len(all.Descs), len(ids))
		}
		check := func(d pdu.Desc, id pdu.PMID) error {
			if d.PMID == id {
				return nil
			}
			return s.excuse(fmt.Errorf("descriptor of %v, not of %v", d.PMID, id), begin, id.Domain())
		}
		for i, d := range all.Descs {
			if err := check(d, ids[i]); err != nil {
				return err
			}
		}
		id := ids[rand.IntN(len(ids))]
		d, err := ask[*pdu.Desc](c, &pdu.DescReq{PMID: id})
		if err != nil {
			return s.excuse(err, begin, id.Domain())
		}
		return check(*d, id)
	}
}

// queries returns look-ups of names that reloads do not change.
func (s *soak) queries() (qs []query, err error) {
	names, ids, err := s.known()
	if err != nil {
		return nil, err
	}
	all := []pdu.Message{
		&pdu.PMNSTraverse{Name: "kernel"}, &pdu.PMNSTraverse{Name: "disk"}, &pdu.PMNSChild{Name: "network", Subtype: 1},
		&pdu.PMNSIDs{PMIDs: ids[:1]}, &pdu.PMNSIDs{PMIDs: ids[1:2]},
	}
	for ; len(names) >= 100; names = names[100:] {
		all = append(all, &pdu.PMNSNames{Names: names[:100]})
	}
	return s.learnAll(all)
}

// store stores numbers into a metric and reads them again.
func (s *soak) store() func(c *client) error {
	id, n := pdu.NewPMID(domainSample, 0, 14), uint32(0) // sample.long.write_me
	return func(c *client) error {
		begin := s.begin()
		n++
		_, err := c.call(encode(&pdu.Result{Sets: []pdu.ValueSet{{PMID: id, Format: pdu.FormatInsitu,
			Values: []pdu.Value{{Inst: pdu.NoInst, Word: n}}}}}))
		if code := pdu.Errno(0); !errors.As(err, &code) || code != 0 { // success is an ERROR, too
			return s.excuse(err, begin, domainSample)
		}
		sets, err := c.fetch(id)
		if err == nil {
			_, err = count(sets, true)
		}
		if err == nil && sets[0].Values[0].Word != n {
			err = fmt.Errorf("stored %d, but the value is %d", n, sets[0].Values[0].Word)
		}
		return s.excuse(err, begin, domainSample)
	}
}

// connects connects, sends a request and disconnects.
func (s *soak) connects(over <-chan struct{}) {
	for !pause(over, pace) {
		s.did("connects", s.once(served))
	}
}

// idleClients connects many clients, one after the other, and disconnects all at
// once.
func (s *soak) idleClients(over <-chan struct{}) {
	var idle []*client
	for done := false; !done; {
		done = pause(over, pace)
		if !done && len(idle) < 200 {
			c, err := s.dial()
			if err == nil {
				idle = append(idle, c)
			}
			s.did("connects", err)
			continue
		}
		for _, c := range idle {
			s.did("connects", served(c))
			c.Close()
		}
		idle = nil
	}
}
