package fuzztest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

const (
	// replyTime is how long a reply may take for which pmcd need not wait for an agent
	// that lies. There are the race detector and other programs.
	replyTime = requestTimeout + 2*time.Second

	// mixedReplyTime is the same for a request that liars answer in part. It may wait for
	// its turn at each of them in turn, and then for the replies.
	mixedReplyTime = (maxMixed+1)*requestTimeout + 2*time.Second
	maxMixed       = 3 // liars in such a request

	checkPause = 5 * time.Millisecond
)

// A checker is some clients whose requests must get correct replies, whatever else
// happens. They use the Unix socket.
type checker struct {
	e     *episode
	stop  chan struct{}
	once  sync.Once
	tasks sync.WaitGroup

	requests sync.RWMutex // held for reading during a request, for writing while there must be none

	mu      sync.Mutex // guards the following
	count   map[string]int
	longest map[string]time.Duration
}

// checkedConnections is the number of connections that a checker keeps.
const checkedConnections = 2

func newChecker(e *episode) *checker {
	c := &checker{e: e, stop: make(chan struct{}), count: make(map[string]int), longest: make(map[string]time.Duration)}
	c.tasks.Go(func() { c.run("one connection", false, replyTime, c.ordinary) })
	c.tasks.Go(func() { c.run("with liars", false, mixedReplyTime, c.mixed) })
	c.tasks.Go(func() { c.run("new connections", true, replyTime, c.ordinary) })
	return c
}

// close ends the clients.
func (c *checker) close() {
	c.once.Do(func() { close(c.stop) })
	c.tasks.Wait()
}

// String returns the number of replies and the longest time.
func (c *checker) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for name, n := range c.count {
		all = append(all, fmt.Sprintf("%s %d (at most %v)", name, n, c.longest[name].Round(time.Millisecond)))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// run sends requests until the checker is closed or a reply is wrong.
func (c *checker) run(name string, reconnect bool, limit time.Duration, check func(context.Context, *pmapi.Client, generator) error) {
	g := c.e.random(name)
	var client *pmapi.Client
	defer func() {
		if client != nil {
			client.Close()
		}
	}()
	step := func() (err error) {
		c.requests.RLock()
		defer c.requests.RUnlock()
		begin := time.Now()
		ctx, cancel := context.WithDeadline(context.Background(), begin.Add(limit))
		defer cancel()
		if client == nil {
			if client, err = pmapi.Dial(ctx, "unix:"+c.e.sock(), pmapi.Options{}); err != nil {
				return err
			}
		}
		if err = check(ctx, client, g); err == nil && reconnect {
			client.Close()
			client = nil
		}
		c.mu.Lock()
		c.count[name]++
		c.longest[name] = max(c.longest[name], time.Since(begin))
		c.mu.Unlock()
		return err
	}
	pause := time.NewTicker(checkPause)
	defer pause.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-c.e.ctx.Done():
			return
		case <-pause.C:
		}
		if err := step(); err != nil {
			c.e.fail("a client with ordinary requests (%s): %v", name, err)
			return
		}
	}
}

// honest returns the name of the top and the domain of an agent that replies correctly.
func honest(g generator) (top string, domain int) {
	if g.IntN(2) == 0 {
		return "honest", domainHonest
	}
	return "involved", domainInvolved
}

// ordinary sends one request of any kind and checks the reply.
func (c *checker) ordinary(ctx context.Context, client *pmapi.Client, g generator) error {
	top, domain := honest(g)
	cluster, item := g.IntN(2), g.IntN(honestItems)
	id := pdu.NewPMID(domain, cluster, item)
	switch g.IntN(9) {
	case 0:
		id := pdu.NewPMID(domain, g.IntN(1<<12), g.IntN(1<<10)) // so many that few are in the client's cache
		d, err := client.Desc(ctx, id)
		return expect("descriptor", d, err, func() bool { return d == desc(id) })
	case 1:
		indom := pdu.NewInDom(domain, 1<<10|item)
		insts, err := client.Instances(ctx, indom)
		return expect("instances", insts, err, func() bool {
			return len(insts) == instances && insts[item%instances].Name == instName(indom, item%instances)
		})
	case 2:
		help, err := client.Text(ctx, id, pmapi.TextOneLine)
		return expect("text", help, err, func() bool { return help == text(id, true) })
	case 3:
		ids, err := client.Lookup(ctx, honestName(top, cluster, item), "pmcd.numclients", "no.such.name")
		if some := new(pmapi.ItemsError); errors.As(err, &some) && errors.Is(some.Errs[2], pdu.ErrnoName) {
			err = errors.Join(some.Errs[:2]...)
		}
		return expect("PMIDs", ids, err, func() bool {
			return slices.Equal(ids, []pdu.PMID{id, pdu.NewPMID(domainPmcd, 0, 3), pdu.NoPMID})
		})
	case 4:
		names, err := client.Names(ctx, id)
		return expect("names", names, err, func() bool { return slices.Equal(names, []string{honestName(top, cluster, item)}) })
	case 5:
		var names []string
		var err error
		for name, nameErr := range client.Traverse(ctx, "involved") {
			names, err = append(names, name), nameErr
		}
		return expect("names below", names, err, func() bool {
			return len(names) == 2*honestItems && slices.Contains(names, honestName("involved", cluster, item))
		})
	}
	return c.fetch(ctx, client, id, pdu.NewPMID(domain, 1-cluster, item))
}

// mixed fetches from liars, too. Their values can be any.
func (c *checker) mixed(ctx context.Context, client *pmapi.Client, g generator) error {
	_, domain := honest(g)
	ids := []pdu.PMID{pdu.NewPMID(domain, 0, g.IntN(100)), pdu.NewPMID(domain, 1, g.IntN(100))}
	for range 1 + g.IntN(maxMixed) {
		ids = append(ids, g.lie(0))
	}
	return c.fetch(ctx, client, ids...)
}

// fetch fetches metrics with those of pmcd, and checks the values of pmcd and of the
// honest agents. Whether all value sets are of the metrics in the request, those of liars
// included, is checked by the other clients: pmapi replaces what is of others.
func (c *checker) fetch(ctx context.Context, client *pmapi.Client, ids ...pdu.PMID) error {
	pid, version, agentStatus := pdu.NewPMID(domainPmcd, 0, 23), pdu.NewPMID(domainPmcd, 0, 7), pdu.NewPMID(domainPmcd, 4, 1)
	ids = append(ids, pid, version, agentStatus)
	var r pmapi.Result
	if err := client.Fetch(ctx, ids, &r); err != nil {
		return err
	}
	for i, vs := range r.Sets {
		id := ids[i]
		ok := vs.PMID == id
		switch d := id.Domain(); {
		case id == pid:
			ok = ok && len(vs.Values) == 1 && len(vs.Values[0].Block) == 8
		case id == version:
			ok = ok && len(vs.Values) == 1 && string(vs.Values[0].Block) == "7.2.1\x00"
		case id == agentStatus:
			found := 0
			for _, v := range vs.Values {
				if (v.Inst == domainHonest || v.Inst == domainInvolved || v.Inst == domainPmcd) && v.Word == 0 {
					found++
				}
			}
			ok = ok && found == 3
		case (d == domainHonest || d == domainInvolved) && id.Cluster() == 0:
			ok = ok && len(vs.Values) == 1 && vs.Values[0].Word == word(id, pdu.NoInst)
		case d == domainHonest || d == domainInvolved:
			ok = ok && len(vs.Values) == instances
			for n, v := range vs.Values {
				ok = ok && v.Inst == int32(n) && v.Word == word(id, int32(n))
			}
		}
		if !ok {
			return fmt.Errorf("values of %v: %+v", id, vs)
		}
	}
	return nil
}

// expect returns an error unless there is a correct reply.
func expect(what string, got any, err error, correct func() bool) error {
	if err == nil && !correct() {
		err = errors.New("wrong reply")
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %+v", what, err, got)
	}
	return nil
}
