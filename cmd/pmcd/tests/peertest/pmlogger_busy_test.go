package peertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/bench/attack"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

const (
	// busySamples is how many samples pmlogger takes, one each second.
	busySamples = 12

	// proxyContexts is how many contexts a pmproxy has. PCP 6.0.3 aborts when it has 1024
	// descriptors.
	proxyContexts = 900

	busyConns = 1000
)

const busyLoggerScript = `
set -eu
mkdir archive && cd archive
echo 'log mandatory on 1 sec { sample.long.one kernel.all kernel.percpu mem.util network.interface pmcd.agent }' >conf
pmlogger -h '{host}' -c conf -l log -s %d a || { cat log; exit 1; }
pmdumplog -z a sample.long.one
`

// A pmlogger misses no sample beside another process of the same user that has many
// connections with requests.
//
// It depends on what else the machine does.
func TestPmloggerBesideBusyProcess(t *testing.T) {
	peer.Require(t)
	if os.Getenv("PMCD_LONG") == "" {
		t.Skip("needs a quiet machine: PMCD_LONG=1")
	}
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		load func(t *testing.T, d *peer.Daemon) (conns int, replies func() int64)
	}{
		{"pmproxy", proxyLoad},
		{"connections that always have a request", closedLoop("kernel.percpu mem.util network.interface")},
		{"connections that always have a large request", closedLoop("kernel mem network")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := peer.StartT(t, path, peer.Config{})
			conns, replies := tt.load(t, d)
			own, err := pmcdtest.Connect(d.Sock)
			if err != nil {
				t.Fatal(err)
			}
			defer own.Close()
			testutil.Eventually(t, "all have connected", func() bool {
				n, err := pmcdtest.Value(own, pdu.NewPMID(peer.DomainPmcd, 0, 3)) // pmcd.numclients
				if err != nil {
					t.Fatal(err)
				}
				return int(n) > conns
			})
			before := replies()
			cl := client("/bin/sh", "-c", fmt.Sprintf(busyLoggerScript, busySamples))
			cl.Env = []string{"PMCD_CONNECT_TIMEOUT=5", "PMCD_REQUEST_TIMEOUT=10"} // as of a pmlogger on a host
			o, err := d.Run(t.Context(), peer.Unix, cl)
			if err != nil || o.Code != 0 {
				t.Fatalf("%v\n%s", err, o)
			}
			checkSamples(t, o.Stdout)
			n := replies() - before
			t.Logf("%d connections had %d replies", conns, n)
			if n < int64(conns) {
				t.Errorf("%d connections had only %d replies", conns, n)
			}
		})
	}
}

// checkSamples checks what pmdumplog prints for a metric: a sample for each second. With the
// first one pmlogger asks for texts and labels, which is several hundred requests. So the
// second may be late, and its time is that from which seconds are counted.
func checkSamples(t *testing.T, text string) {
	t.Helper()
	var times []time.Time
	for _, m := range regexp.MustCompile(`(?m)^(\d\d:\d\d:\d\d\.\d+) `).FindAllStringSubmatch(text, -1) {
		at, err := time.Parse("15:04:05.999999", m[1])
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, at)
	}
	if n := len(times); n != busySamples {
		t.Fatalf("%d samples, want %d\n%s", n, busySamples, text)
	}
	for i, at := range times[1:] {
		since := at.Sub(times[1])
		if since < 0 { // midnight
			since += 24 * time.Hour
		}
		// If pmlogger skips a sample, the next ones are later than their numbers say.
		if since >= time.Duration(i+1)*time.Second {
			t.Errorf("sample %d was taken %v after the second one", i+1, since)
		}
	}
}

// proxyLoad has a pmproxy with many contexts fetch in all of them again and again.
func proxyLoad(t *testing.T, d *peer.Daemon) (int, func() int64) {
	api := newRestAPI(t, d, "tcp")
	contexts := make([]uint64, proxyContexts)
	for i := range contexts {
		o, err := api.get(t.Context(), d, peer.Unix, "context?hostspec={host}&polltimeout=300")
		var reply struct{ Context uint64 }
		if err == nil && o.Code == http.StatusOK {
			err = json.Unmarshal([]byte(o.Stdout), &reply)
		}
		if err != nil || o.Code != http.StatusOK {
			t.Fatalf("context %d: %v\n%s", i, err, o)
		}
		contexts[i] = reply.Context
	}
	ctx, cancel := context.WithCancel(t.Context())
	var fetched atomic.Int64
	var requests sync.WaitGroup
	requests.Go(func() { // one at a time: PCP 6.0.3 has ended with SIGSEGV when there were eight
		for i := 0; ctx.Err() == nil; i = (i + 1) % proxyContexts {
			o, err := api.get(ctx, d, peer.Unix, fmt.Sprintf("fetch?context=%d&names=kernel.percpu.cpu.user,network.interface.in.bytes,sample.long.one,disk.dev.total", contexts[i]))
			switch {
			case ctx.Err() != nil:
			case err != nil || o.Code != http.StatusOK:
				t.Errorf("context %d: %v\n%s", i, err, o)
				return
			default:
				fetched.Add(1)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		requests.Wait()
	})
	return proxyContexts, fetched.Load
}

// closedLoop returns a load: this process fetches the metrics of the agent linux that have
// these names on many connections, on each again when the reply has arrived.
func closedLoop(names string) func(*testing.T, *peer.Daemon) (int, func() int64) {
	return func(t *testing.T, d *peer.Daemon) (int, func() int64) { return closedLoopLoad(t, d, names) }
}

func closedLoopLoad(t *testing.T, d *peer.Daemon, names string) (int, func() int64) {
	o, err := d.Run(t.Context(), peer.Unix, words("pminfo -m -h {host} "+names))
	if err != nil {
		t.Fatal(err)
	}
	var m attack.Metrics
	for _, s := range regexp.MustCompile(`PMID: 60\.(\d+)\.(\d+)`).FindAllStringSubmatch(o.Stdout, -1) {
		var cluster, item int
		fmt.Sscan(s[1], &cluster)
		fmt.Sscan(s[2], &item)
		m.All = append(m.All, pdu.NewPMID(peer.DomainLinux, cluster, item))
	}
	if len(m.All) < 100 {
		t.Fatalf("%d metrics\n%s", len(m.All), strings.TrimSpace(o.Stdout))
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := attack.Start(ctx, attack.Attack{Conns: busyConns, Script: m.AllMetrics(), Dial: func(ctx context.Context) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", d.Sock)
	}})
	t.Cleanup(func() {
		cancel()
		<-r.Done()
	})
	return busyConns, func() int64 {
		c := r.Counts()
		if c.Ended > 0 {
			t.Errorf("pmcd has ended %d connections", c.Ended)
		}
		return c.Replies
	}
}
