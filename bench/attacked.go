package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// An attackBench measures daemons under attack. Attackers connect to a loopback address.
// Victims have another group each: one uses the Unix socket as another user, one has an
// address of another host.
type attackBench struct {
	*options
	stop <-chan os.Signal
	tree string     // of the host that agent linux shows
	net  *namespace // nil if there is none
}

// watchedNames are the metrics that victims fetch.
var watchedNames = []string{"pmcd.numclients", "kernel.all.load"}

// endTimeout is how long a daemon may take to end before it is killed.
const endTimeout = 60 * time.Second

// measure attacks a daemon, and then has the attackers send the same bytes to a port
// that discards them, beside another daemon.
func (b *attackBench) measure(h attackScenario, side int) (r attackResult, err error) {
	r = attackResult{Attack: h.name, About: h.about, Side: sideNames[side]}
	if err = b.attacked(h, side, &r); err == nil {
		err = b.control(h, side, &r)
	}
	return r, err
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

// priority returns how attackers are started.
func (b *attackBench) priority(h attackScenario) spawnOptions {
	return spawnOptions{nice: !h.full && !b.hostile.full}
}

// inOrder calls functions until one fails.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// attacked measures a daemon under attack, and its end.
func (b *attackBench) attacked(h attackScenario, side int, r *attackResult) error {
	t, err := b.start(h, side)
	if err != nil {
		return err
	}
	defer t.close()
	resetPeak(t.pid())
	peak := watchMemory(t.pid())
	defer peak.stop()
	attackers, err := spawn("attack", attackParams{Name: h.name, Addr: fmt.Sprintf("127.0.0.1:%d", t.port), Metrics: t.metrics}, b.priority(h))
	if err != nil {
		return err
	}
	defer attackers.stop()
	var use *cpuUse
	if err := inOrder(
		func() error { return attackers.next(&r.Ramp) },
		t.begin,
		func() error { use = newCPUUse(t.pid()); return b.wait(cmp.Or(b.time, longTime)) },
		func() error { return attackers.ask("", &r.Attackers) },
		func() error { r.CPU = use.percent(); return nil },
		func() (err error) { r.Attacked, r.Newcomers, err = t.end(); return err },
	); err != nil {
		return errors.Join(err, t.ended())
	}
	r.Watchdog = t.manager.longest().Seconds()
	r.HasWatchdog = t.ours
	most := peak.stop()
	r.RSS, r.Anon = float64(most.peak-t.idle.rss)/1e6, float64(most.anon-t.idle.anon)/1e6
	if err := t.ended(); err != nil {
		return fmt.Errorf("%w: %s", err, t.tail())
	}
	from := time.Now()
	if err := t.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-t.exited:
	case <-time.After(endTimeout):
		t.cmd.Process.Kill()
		<-t.exited
	}
	r.End = time.Since(from).Seconds()
	return nil
}

// control measures the victims while the attackers send to another port, at the rate
// that the daemon has accepted: of connections if they end again and again, of bytes
// otherwise.
func (b *attackBench) control(h attackScenario, side int, r *attackResult) error {
	t, err := b.start(h, side)
	if err != nil {
		return err
	}
	defer t.close()
	sink, err := spawn("sink", nil, b.priority(h))
	if err != nil {
		return err
	}
	defer sink.stop()
	p := attackParams{Name: h.name, Blind: true, Metrics: t.metrics}
	of := func(n int64) float64 { return max(1, float64(n)/r.Attackers.Seconds) }
	switch a := h.attack(&t.metrics); {
	case a.Connects != 0:
		p.Begins = of(r.Attackers.Begun)
	case a.Rate == 0:
		p.Rate = of(r.Attackers.Sent)
	}
	if err := sink.next(&p.Addr); err != nil {
		return err
	}
	attackers, err := spawn("attack", p, b.priority(h))
	if err != nil {
		return err
	}
	defer attackers.stop()
	var use *cpuUse
	return inOrder(
		func() error { return attackers.next(&attackReport{}) },
		t.begin,
		func() error { use = newCPUUse(t.pid()); return b.wait(cmp.Or(b.time, longTime)) },
		func() error { r.ControlCPU = use.percent(); return nil },
		func() (err error) { r.Control, _, err = t.end(); return err })
}
