package peertest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// fetchCost is what some requests have cost a client.
type fetchCost struct {
	elapsed, cpu time.Duration
	allocations  uint64
	sum          float64 // of the values
}

func (c *fetchCost) add(o fetchCost) {
	c.elapsed += o.elapsed
	c.cpu += o.cpu
	c.allocations += o.allocations
	c.sum += o.sum
}

// A cFetcher is a client of libpcp, testdata/fetch.c.
type cFetcher struct {
	in  io.WriteCloser
	out *bufio.Reader
}

// startCFetcher starts a client that fetches a metric a number of times in one request.
func startCFetcher(tb testing.TB, d *peer.Daemon, metric string, number int) *cFetcher {
	tb.Helper()
	program := filepath.Join(tb.TempDir(), "fetch")
	if out, err := exec.Command("cc", "-O2", "-Wno-builtin-declaration-mismatch", "-o", program, "testdata/fetch.c", "-lpcp").CombinedOutput(); err != nil {
		tb.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program, d.Host(peer.Unix), metric, strconv.Itoa(number))
	cmd.Env = append(os.Environ(), "PCP_DERIVED_CONFIG=", "PMCD_CONNECT_TIMEOUT=60", "PMCD_REQUEST_TIMEOUT=60")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			tb.Error(err)
		}
	})
	return &cFetcher{in, bufio.NewReader(out)}
}

func (f *cFetcher) fetch(requests int) (c fetchCost, err error) {
	if _, err = fmt.Fprintln(f.in, requests); err == nil {
		_, err = fmt.Fscan(f.out, &c.elapsed, &c.cpu, &c.allocations, &c.sum)
	}
	return c, err
}

// A goFetcher is the same with package pmapi.
type goFetcher struct {
	c      *pmapi.Client
	ids    []pdu.PMID
	typ    pdu.MetricType
	result pmapi.Result
}

func startGoFetcher(tb testing.TB, d *peer.Daemon, metric string, number int) *goFetcher {
	tb.Helper()
	ctx := context.Background()
	c, err := pmapi.Dial(ctx, d.Host(peer.Unix), pmapi.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	ids, err := c.Lookup(ctx, metric)
	if err != nil {
		tb.Fatal(err)
	}
	desc, err := c.Desc(ctx, ids[0])
	if err != nil {
		tb.Fatal(err)
	}
	f := &goFetcher{c: c, typ: desc.ValueType}
	for range number {
		f.ids = append(f.ids, ids[0])
	}
	return f
}

func (f *goFetcher) fetch(requests int) (c fetchCost, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, cpu := time.Now(), processCPU()
	for range requests {
		if err := f.c.Fetch(context.Background(), f.ids, &f.result); err != nil {
			return c, err
		}
		for i := range f.result.Sets {
			s := &f.result.Sets[i]
			if len(s.Values) == 0 {
				return c, fmt.Errorf("no value: %v", s.Err)
			}
			v, err := pmapi.Decode(s, s.Values[0], f.typ)
			if err != nil {
				return c, err
			}
			x, err := v.Float64()
			if err != nil {
				return c, err
			}
			c.sum += x
		}
	}
	c.elapsed, c.cpu = time.Since(began), processCPU()-cpu
	runtime.ReadMemStats(&after)
	c.allocations = after.Mallocs - before.Mallocs
	return c, nil
}

func processCPU() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// steadyMetric has the same value in each fetch, and its agent is in the process of both
// daemons.
const steadyMetric = "pmcd.control.timeout"

// Both clients get the same values.
func TestGoClientBesideC(t *testing.T) {
	p := servers(t)
	for _, d := range []*peer.Daemon{p.C, p.Ours} {
		c, err := startCFetcher(t, d, steadyMetric, 100).fetch(3)
		if err != nil {
			t.Fatal(err)
		}
		o, err := startGoFetcher(t, d, steadyMetric, 100).fetch(3)
		if err != nil {
			t.Fatal(err)
		}
		if c.sum != o.sum || c.sum == 0 {
			t.Errorf("sums %v and %v", c.sum, o.sum)
		}
	}
}

// BenchmarkGoClient is a fetch by package pmapi and by libpcp, in turns, of values of
// PCP's pmcd at its Unix socket. Times are in microseconds for a fetch: until all values are
// there as numbers, and of the client's own CPU. The ratios are Go's by C's.
func BenchmarkGoClient(b *testing.B) {
	peer.Require(b)
	d := peer.StartT(b, peer.CPmcd, peer.Config{Agents: []string{
		fmt.Sprintf("pmcd %d dso pmcd_init /var/lib/pcp/pmdas/pmcd/pmda_pmcd.so", peer.DomainPmcd),
	}})
	for _, number := range []int{1, 100, 1000} {
		b.Run(strconv.Itoa(number), func(b *testing.B) {
			inC, inGo := startCFetcher(b, d, steadyMetric, number), startGoFetcher(b, d, steadyMetric, number)
			const batch = 100
			for _, f := range []func(int) (fetchCost, error){inC.fetch, inGo.fetch} { // memory and caches
				if _, err := f(batch); err != nil {
					b.Fatal(err)
				}
			}
			var ofC, ofGo fetchCost
			done := 0
			for b.Loop() {
				if done++; done%batch != 1 {
					continue
				}
				c, err := inC.fetch(batch)
				if err != nil {
					b.Fatal(err)
				}
				o, err := inGo.fetch(batch)
				if err != nil {
					b.Fatal(err)
				}
				ofC.add(c)
				ofGo.add(o)
			}
			if ofC.sum != ofGo.sum {
				b.Errorf("sums %v and %v", ofC.sum, ofGo.sum)
			}
			fetches := float64((done + batch - 1) / batch * batch)
			us := func(t time.Duration) float64 { return float64(t.Nanoseconds()) / 1e3 / fetches }
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(us(ofC.elapsed), "C-time")
			b.ReportMetric(us(ofGo.elapsed), "time")
			b.ReportMetric(us(ofGo.elapsed)/us(ofC.elapsed), "time-ratio")
			b.ReportMetric(us(ofC.cpu), "C-cpu")
			b.ReportMetric(us(ofGo.cpu), "cpu")
			b.ReportMetric(us(ofGo.cpu)/us(ofC.cpu), "cpu-ratio")
			b.ReportMetric(float64(ofC.allocations)/fetches, "C-allocs")
			b.ReportMetric(float64(ofGo.allocations)/fetches, "allocs")
		})
	}
}
