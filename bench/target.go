package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gopcp/pmcd/bench/attack"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// A target is a daemon with victims.
type target struct {
	*run
	manager   *manager
	metrics   attack.Metrics
	victims   map[string]*child // by how they connect
	newcomers *child
	idle      memoryUse
}

// start starts a daemon and the victims for an attack.
func (b *attackBench) start(h attackScenario, side int) (t *target, err error) {
	t = &target{victims: map[string]*child{}}
	defer func() {
		if err != nil {
			t.close()
			t = nil
		}
	}()
	notify := filepath.Join(b.base, "notify")
	conf := h.setup
	conf.agents, conf.tree = attackAgents, b.tree
	if side == ours {
		conf.notify = notify
	}
	if b.net != nil {
		conf.listen = b.net.addr
	}
	os.Remove(notify)
	if t.manager, err = newManager(notify); err != nil {
		return t, err
	}
	program := [sides]string{b.c, b.pmcd}[side]
	t.run = &run{options: b.options, setup: conf, program: program, ours: side == ours}
	if t.daemon, err = start(b.base, program, conf, t.ours); err != nil {
		return t, err
	}
	if _, err = t.ready(conf.metrics()...); err != nil {
		return t, err
	}
	if t.metrics, err = t.attackMetrics(); err != nil {
		return t, err
	}
	ids, err := t.ids(watchedNames...)
	if err != nil {
		return t, err
	}
	spawnVictim := func(name, network, addr string, o spawnOptions) error {
		c, err := spawn("victim", victimParams{network, addr, ids, victimEvery}, o)
		if err == nil {
			t.victims[name] = c
		}
		return err
	}
	if err = spawnVictim("unix", "unix", filepath.Join(t.dir, "sock"), spawnOptions{user: true}); err == nil && b.net != nil {
		err = spawnVictim("tcp", "tcp4", fmt.Sprintf("%s:%d", b.net.addr, t.port), spawnOptions{user: true, net: b.net})
	}
	if err == nil {
		err = t.startNewcomers(b, ids[0])
	}
	if err == nil {
		err = b.wait(time.Second)
	}
	t.idle = memoryOf(t.pid())
	t.manager.restart()
	return t, err
}

// startNewcomers starts the clients that connect beside attackers, at the address of another
// host if there is one.
func (t *target) startNewcomers(b *attackBench, id pdu.PMID) (err error) {
	p, o := newcomerParams{Network: "unix", Addr: filepath.Join(t.dir, "sock"), ID: id}, spawnOptions{user: true, net: b.net}
	if b.net != nil {
		p.Network, p.Addr = "tcp4", fmt.Sprintf("%s:%d", b.net.addr, t.port)
	}
	t.newcomers, err = spawn("newcomer", p, o)
	return err
}

// attackMetrics finds out what the attacks fetch.
func (r *run) attackMetrics() (m attack.Metrics, err error) {
	ids, err := r.ids("pmcd.client.start_date", "kernel.percpu.interrupts", "kernel.percpu.cpu.user", "sample.long.one")
	if err != nil {
		return m, err
	}
	m.Own, m.Cells, m.Wide, m.Piped = ids[0], ids[1], ids[2], ids[3]
	if err := r.with(func(c *pmapi.Client) error {
		descs, err := c.Descs(context.Background(), m.Own, m.Cells)
		if err != nil {
			return err
		}
		m.OwnInDom, m.CellsInDom = descs[0].InDom, descs[1].InDom
		_, m.All, err = below(c, "kernel")
		return err
	}); err != nil {
		return m, err
	}
	return m, r.once(func(c *client) error {
		var length [2]int // of a reply with one and with two parts
		for i := range length {
			b, err := c.call(attack.Fetch(0, 1+i, m.Wide))
			if err != nil {
				return err
			}
			length[i] = len(b)
		}
		m.WideLen = length[1] - length[0]
		return nil
	})
}

// begin begins the measurements of the victims.
func (t *target) begin() error {
	var errs []error
	for _, c := range t.children() {
		errs = append(errs, c.ask("measure", &struct{}{}))
	}
	return errors.Join(errs...)
}

// children returns all processes that measure.
func (t *target) children() []*child {
	return append(slices.Collect(maps.Values(t.victims)), t.newcomers)
}

// end returns what the victims have measured, by victim and metric, and what newcomers have.
func (t *target) end() (all map[string]watched, newcomers []watched, err error) {
	all = map[string]watched{}
	errs := []error{t.newcomers.ask("report", &newcomers)}
	for name, c := range t.victims {
		var w []watched
		errs = append(errs, c.ask("report", &w))
		for i := range w {
			all[name+" "+watchedNames[i]] = w[i]
		}
	}
	return all, newcomers, errors.Join(errs...)
}

func (t *target) close() {
	for _, c := range t.children() {
		c.stop()
	}
	if t.run != nil && t.daemon != nil {
		t.daemon.stop()
	}
	if t.manager != nil {
		t.manager.close()
	}
}
