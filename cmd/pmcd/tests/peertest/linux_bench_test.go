package peertest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// A contender is a daemon that has an agent for the kernel.
type contender struct {
	d      *peer.Daemon
	client *pmapi.Client
	ids    []pdu.PMID
	times  []time.Duration
	cpu    time.Duration // of the daemon and its agents
	result pmapi.Result
}

// cpuTime is what the daemon and its agents have used so far, threads that have
// ended included. The id of a process's clock is in clock_getcpuclockid(3).
func (c *contender) cpuTime() (sum time.Duration, err error) {
	pids := []int{c.d.PID()}
	for _, p := range peer.Descendants(c.d.PID()) {
		pids = append(pids, p.PID)
	}
	for _, pid := range pids {
		var ts unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|2), &ts); err != nil {
			return 0, err
		}
		sum += time.Duration(ts.Nano())
	}
	return sum, nil
}

// pin has all threads of some processes run on CPU 0 only.
func pin(pids ...int) error {
	var one unix.CPUSet
	one.Set(0)
	for _, pid := range pids {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return err
		}
		for _, t := range threads {
			tid, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			if err := unix.SchedSetaffinity(tid, &one); err != nil && err != unix.ESRCH {
				return err
			}
		}
	}
	return nil
}

// fetch fetches n times.
func (c *contender) fetch(n int) error {
	before, err := c.cpuTime()
	if err != nil {
		return err
	}
	for range n {
		began := time.Now()
		if err := c.client.Fetch(context.Background(), c.ids, &c.result); err != nil {
			return err
		}
		c.times = append(c.times, time.Since(began))
	}
	after, err := c.cpuTime()
	c.cpu += after - before
	return err
}

// median is half of the fetches' times, in microseconds.
func (c *contender) median() float64 {
	slices.Sort(c.times)
	return float64(c.times[len(c.times)/2].Nanoseconds()) / 1e3
}

// BenchmarkLinux is a fetch of the kernel's metrics: by C pmcd, which has
// pmdalinux on a pipe, and by ours, which has its agent in process. They take
// turns. p50 is in microseconds, cpu is that of a daemon and its agents for a
// fetch, and the ratios are ours by C's.
//
// Where CPUs sleep, half of p50 may be waking them. Linux tends to leave C's
// three processes (client, pmcd, agent) on one CPU and our two on two. The last
// runs have all on one.
func BenchmarkLinux(b *testing.B) {
	peer.Require(b)
	if os.Getenv("PMCD_UNDER_TEST") == "" {
		b.Log("PMCD_UNDER_TEST is not set")
	}
	ours, err := peer.UnderTest()
	if err != nil {
		b.Fatal(err)
	}
	pmcd := fmt.Sprintf("pmcd %d dso pmcd_init /var/lib/pcp/pmdas/pmcd/pmda_pmcd.so", peer.DomainPmcd)
	start := func(path, agent string) *contender {
		d := peer.StartT(b, path, peer.Config{
			Agents: []string{pmcd, fmt.Sprintf("linux %d %s", peer.DomainLinux, agent)},
			Env:    []string{fmt.Sprintf("GOMAXPROCS=%d", runtime.NumCPU())}, // also when it is pinned
		})
		client, err := pmapi.Dial(b.Context(), d.Host(peer.Unix), pmapi.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { client.Close() })
		return &contender{d: d, client: client}
	}
	c := start(peer.CPmcd, "pipe binary /var/lib/pcp/pmdas/linux/pmdalinux")
	o := start(ours, "dso linux_init /nonexistent")
	all := []string{"kernel.all.load", "kernel.percpu.cpu", "mem.util", "disk.dev", "network.interface"}
	for _, bb := range []struct {
		name  string
		below []string
		pin   bool
	}{{"all", all, false}, {all[0], all[:1], false}, {all[1], all[1:2], false}, {all[2], all[2:3], false}, {all[3], all[3:4], false}, {all[4], all[4:], false}, {"all-on-one-cpu", all, true}} {
		b.Run(bb.name, func(b *testing.B) {
			if bb.pin {
				pids := []int{os.Getpid()}
				for _, x := range []*contender{c, o} {
					pids = append(pids, x.d.PID())
					for _, p := range peer.Descendants(x.d.PID()) {
						pids = append(pids, p.PID)
					}
				}
				if err := pin(pids...); err != nil {
					b.Fatal(err)
				}
			}
			var ids []pdu.PMID
			for _, name := range bb.below {
				_, found, err := pmcdtest.Below(c.client, name)
				if err != nil {
					b.Fatal(err)
				}
				ids = append(ids, found...)
			}
			values := func(x *contender) (n int) {
				var r pmapi.Result
				if err := x.client.Fetch(b.Context(), ids, &r); err != nil {
					b.Fatal(err)
				}
				for _, s := range r.Sets {
					n += len(s.Values)
				}
				*x = contender{d: x.d, client: x.client, ids: ids}
				return n
			}
			if nc, no := values(c), values(o); no == 0 || no < nc*9/10 {
				b.Fatalf("C has %d values, ours %d", nc, no)
			}
			const batch = 20
			done := 0
			for b.Loop() {
				if done%batch == 0 {
					for _, x := range []*contender{c, o} {
						if err := x.fetch(batch); err != nil {
							b.Fatal(err)
						}
					}
				}
				done++
			}
			per := func(x *contender) float64 { return float64(x.cpu.Microseconds()) / float64(len(x.times)) }
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(c.median(), "C-p50")
			b.ReportMetric(o.median(), "p50")
			b.ReportMetric(o.median()/c.median(), "p50-ratio")
			b.ReportMetric(per(c), "C-cpu")
			b.ReportMetric(per(o), "cpu")
			b.ReportMetric(per(o)/per(c), "cpu-ratio")
		})
	}
}
