package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gopcp/pmcd/bench/attack"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// An attackBench measures daemons under attack. Attackers connect to a loopback address.
// Victims have another group each: one uses the Unix socket as another user, one has an
// address of another host.
type attackBench struct {
	*options
	stop <-chan os.Signal
	net  string // a network namespace; "" is none
	addr string // of this host, as seen from there
}

// watchedNames are the metrics that victims fetch.
var watchedNames = []string{numClients, "kernel.all.load"}

const (
	victimEvery   = 10 * time.Millisecond // between two fetches of a victim
	newcomerEvery = 50 * time.Millisecond // between two newcomers
	aloneTime     = time.Second           // for which victims are measured before the attack
	endTimeout    = 60 * time.Second      // how long a daemon may take to end before it is killed
)

// otherHost makes a network namespace with one interface, whose peer is in that of this process.
// It needs root and ip(8).
func (b *attackBench) otherHost() error {
	// Addresses of 198.18.0.0/15 are for benchmarks (RFC 2544).
	pid := os.Getpid()
	name, net, first := fmt.Sprint("bench", pid), fmt.Sprintf("198.18.%d.", pid>>6&0xff), pid&0x3f<<2
	b.addr = fmt.Sprint(net, first+1)
	err := sh(`ip netns add $0 && ip link add $0 type veth peer name veth0 netns $0 &&
		ip -n $0 addr add $2/30 dev veth0 && ip -n $0 link set veth0 up &&
		ip addr add $1/30 dev $0 && ip link set $0 up`, name, b.addr, fmt.Sprint(net, first+2))
	b.net = name
	if err != nil {
		b.noOtherHost()
		b.net, b.addr = "", ""
	}
	return err
}

func (b *attackBench) noOtherHost() {
	if b.net != "" {
		sh("ip link del $0; ip netns del $0", b.net)
	}
}

// sh runs a script of the shell.
func sh(script string, args ...any) error {
	cmd := exec.Command("sh", "-c", script)
	for _, a := range args {
		cmd.Args = append(cmd.Args, fmt.Sprint(a))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// wait waits, or returns errInterrupted.
func (b *attackBench) wait(d time.Duration) error {
	select {
	case <-b.stop:
		return errInterrupted
	case <-time.After(d):
		return nil
	}
}

// watchers are child processes that measure: victims by how they connect and what they fetch, and
// newcomers.
type watchers map[string]*child

const newcomers = "newcomers"

func (ws watchers) stop() {
	for _, c := range ws {
		c.stop()
	}
}

// watchers starts the victims, and newcomers at the address of another host if there is one.
func (b *attackBench) watchers(r *run) (ws watchers, err error) {
	ids, err := r.ids(watchedNames...)
	if err != nil {
		return nil, err
	}
	ws = watchers{}
	add := func(name string, p pacedParams, before ...string) {
		if os.Geteuid() == 0 {
			before = append(before, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") // nobody
		}
		p.Clients = 1
		if err == nil {
			ws[name], err = spawn("paced", p, before...)
		}
	}
	p := pacedParams{Network: "unix", Addr: filepath.Join(r.dir, "sock"), Every: victimEvery}
	var before []string
	for range 2 {
		for i, name := range watchedNames {
			p.IDs = ids[i : i+1]
			add(p.Network+" "+name, p, before...)
		}
		if b.net == "" {
			break
		}
		p.Network, p.Addr = "tcp4", fmt.Sprintf("%s:%d", b.addr, r.port)
		before = []string{"ip", "netns", "exec", b.net}
	}
	p.Newcomers, p.Every = true, newcomerEvery
	add(newcomers, p, before...)
	for _, c := range ws {
		if err == nil {
			err = c.next(&struct{}{})
		}
	}
	if err != nil {
		ws.stop()
	}
	return ws, err
}

// measure measures victims and newcomers for some time.
func (ws watchers) measure(wait func() error) (victims map[string]watched, newcomer []watched, err error) {
	for _, c := range ws {
		if err := c.ask("measure", &struct{}{}); err != nil {
			return nil, nil, err
		}
	}
	if err := wait(); err != nil {
		return nil, nil, err
	}
	victims = map[string]watched{}
	for _, name := range slices.Sorted(maps.Keys(ws)) {
		var r pacedReport
		if err := ws[name].ask("report", &r); err != nil {
			return nil, nil, err
		}
		if name == newcomers {
			newcomer = r.Watches
		} else {
			victims[name] = r.Watches[fetchTime]
		}
	}
	return victims, newcomer, nil
}

// attackMetrics finds out what the attacks fetch.
func (r *run) attackMetrics() (m attack.Metrics, err error) {
	ids, err := r.ids("pmcd.client.start_date", "kernel.percpu.interrupts", "kernel.percpu.cpu.user", sampleOne, "kernel.all.load")
	if err != nil {
		return m, err
	}
	m.Own, m.Cells, m.Wide, m.Piped, m.Few = ids[0], ids[1], ids[2], ids[3], ids[4]
	m.Large = pdu.NewPMID(domainSlow, 0, 1)
	if m.All, err = r.ids("kernel.*"); err != nil {
		return m, err
	}
	if err := r.with(func(c *pmapi.Client) error {
		descs, err := c.Descs(context.Background(), m.Own, m.Cells)
		if err == nil {
			m.OwnInDom, m.CellsInDom = descs[0].InDom, descs[1].InDom
		}
		return err
	}); err != nil {
		return m, err
	}
	return m, r.once(func(c *client) error {
		var length [3]int // of replies
		for i, ids := range [][]pdu.PMID{{m.Wide}, {m.Wide, m.Wide}, {m.Wide, m.Few}} {
			b, err := c.call(attack.Fetch(0, len(ids), ids...))
			if err != nil {
				return err
			}
			length[i] = len(b)
		}
		m.WideLen, m.FewLen = length[1]-length[0], length[2]-length[0]
		return nil
	})
}

// measure measures a daemon alone and under attack, and its end.
func (b *attackBench) measure(h attackScenario, side int, res *attackResult) error {
	notify := filepath.Join(b.base, "notify")
	os.Remove(notify)
	m, err := newManager(notify)
	if err != nil {
		return err
	}
	defer m.Close()
	conf := h.setup
	conf.agents, conf.composed, conf.listen = attackAgents, true, b.addr
	if side == ours {
		conf.notify = notify
	}
	r := b.newRun(conf, side)
	if r.daemon, err = r.start(); err != nil {
		return err
	}
	defer r.stop()
	metrics, err := r.attackMetrics()
	if err != nil {
		return err
	}
	ws, err := b.watchers(r)
	if err != nil {
		return err
	}
	defer ws.stop()
	if res.Alone, _, err = ws.measure(func() error { return b.wait(aloneTime) }); err != nil {
		return err
	}
	resetPeak(r.pid())
	m.longest()
	var before []string
	if !h.full && !b.hostile.full {
		before = []string{"nice", "-n", "19"}
	}
	attackers, err := spawn("attack", attackParams{h.name, r.addr(), metrics}, before...)
	if err != nil {
		return err
	}
	defer attackers.stop()
	if err := attackers.next(&res.Ramp); err != nil {
		return err
	}
	time := cmp.Or(b.time, longTime)
	below := treeOf(r.pid())
	used := below.usage()
	res.Attacked, res.Newcomers, err = ws.measure(func() error { return b.wait(time) })
	daemon, all, _, _ := below.usage().since(used)
	err = errors.Join(err, attackers.ask("", &res.Attackers), r.ended())
	if err != nil {
		return fmt.Errorf("%w: %s", err, r.tail())
	}
	res.CPU = 100 * daemon.Seconds() / res.Attackers.Seconds
	res.AgentCPU = 100 * (all - daemon).Seconds() / res.Attackers.Seconds
	res.Watchdog, res.HasWatchdog = m.longest().Seconds(), r.ours
	res.Peak = float64(memoryOf(r.pid(), "VmHWM")) / 1e6
	res.End, err = r.end(endTimeout)
	return err
}
