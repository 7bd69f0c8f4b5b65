package pmcd

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

var origin agents.Origin

// TestProcessMetrics checks the metrics of the process for plausible values.
func TestProcessMetrics(t *testing.T) {
	a := newAgent(newHost())
	one := func(name string) float64 {
		t.Helper()
		switch v := values(t, a, root, includeAll, pmidOf(t, name))[0].value.(type) {
		case int64:
			return float64(v)
		case float64:
			return v
		}
		t.Fatal(name)
		return 0
	}
	if n := one("pmcd.datasize"); n < 50 || n > 1e6 {
		t.Errorf("pmcd.datasize = %v", n)
	}

	before := one("pmcd.openfds")
	var files []*os.File
	for range 20 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	during := one("pmcd.openfds")
	for _, f := range files {
		f.Close()
	}
	if after := one("pmcd.openfds"); during < before+20 || after != during {
		t.Errorf("pmcd.openfds = %v, then %v, then %v", before, during, after)
	}
	f := &fetch{ctx: t.Context()}
	if n := f.countFiles("/proc/self/fd"); n < 3 {
		t.Errorf("countFiles = %d", n)
	}

	total := 0
	for _, v := range values(t, a, root, includeAll, pmidOf(t, "pmcd.buf.alloc")) {
		n := int(v.value.(int64))
		if n < 0 {
			t.Errorf("pmcd.buf.alloc[%d] = %d", v.inst, n)
		}
		total += n
	}
	if total < 100 || total > 1e7 {
		t.Errorf("pmcd.buf.alloc is %d in all", total)
	}
	for _, v := range values(t, a, root, includeAll, pmidOf(t, "pmcd.buf.free")) {
		if v.value != int64(0) {
			t.Errorf("pmcd.buf.free[%d] = %v", v.inst, v.value)
		}
	}

	start := one("pmcd.cputime.total")
	useCPU(30 * time.Millisecond)
	if end := one("pmcd.cputime.total"); end < start+30 || end > start+30000 {
		t.Errorf("pmcd.cputime.total = %v, then %v", start, end)
	}
}

// useCPU returns when the process has used d of CPU time.
func useCPU(d time.Duration) {
	a := newAgent(newHost())
	used := func() time.Duration {
		f := &fetch{a: a, ctx: context.Background()}
		return f.cpu().used
	}
	for start := used(); used() < start+d; {
	}
}

// TestCPUTimePerPDU has two clients, for each of which the value is since its own last
// fetch.
func TestCPUTimePerPDU(t *testing.T) {
	h := newHost()
	a := newAgent(h)
	m := pmidOf(t, "pmcd.cputime.per_pdu_in")
	cost := func(client int32) float64 { return values(t, a, client, includeAll, m)[0].value.(float64) }

	f := &fetch{a: a, ctx: context.Background()}
	least := float64(f.cpu().used.Microseconds()) / 300 // the number of PDUs that the fake host has received
	if got := cost(user); got < least {
		t.Errorf("first fetch: got %v, want %v or more", got, least)
	}
	for range 10 {
		h.counts.In(pdu.TypeFetch)
	}
	useCPU(50 * time.Millisecond)
	if got := cost(user); got < 5e3 {
		t.Errorf("50 ms for 10 PDUs: got %v", got)
	}
	if got := cost(user); got != 0 {
		t.Errorf("no PDUs: got %v", got)
	}
	h.counts.In(pdu.TypeFetch)
	if got, least := cost(remote), float64(f.cpu().used.Microseconds())/311; got < least || got > 1e6 {
		t.Errorf("first fetch of another client: got %v, want %v or more", got, least)
	}
	if len(a.usage.lastFetch) != 2 {
		t.Errorf("last fetches: %v", a.usage.lastFetch)
	}
	a.EndContext(user)
	a.EndContext(remote)
	if len(a.usage.lastFetch) != 0 {
		t.Errorf("last fetches of disconnected clients: %v", a.usage.lastFetch)
	}

	// All values in one fetch are the same.
	sets := fetchAs(t, a, user, includeAll, m, m)
	if string(sets[0].Values[0].Block) != string(sets[1].Values[0].Block) {
		t.Errorf("twice in one fetch: %v", sets)
	}
}

// TestFetchDoesNotAllocate fetches numbers and some strings, after a first fetch has
// allocated the memory.
func TestFetchDoesNotAllocate(t *testing.T) {
	h := newHost()
	for i := range int32(200) {
		h.clients = append(h.clients, ClientInfo{Client: 100 + i, Seq: 100 + i})
		h.agents = append(h.agents, AgentInfo{Domain: 100 + int(i)})
	}
	a := newAgent(h)
	var ids []pdu.PMID
	for cluster, c := range clusters {
		for _, m := range c {
			switch m.name {
			case "", "pmcd.openfds": // stat(2) allocates for the path
				continue
			}
			if m.typ != str && m.indom != indomLoggers && m.indom != indomPmies {
				ids = append(ids, id(cluster, m.item))
			}
		}
	}
	ids = append(ids, pmidOf(t, "pmcd.client.whoami"), pmidOf(t, "pmcd.agent.name"), pmidOf(t, "pmcd.version"))
	var w pdu.ResultWriter
	var buf []byte
	r := &agents.FetchRequest{Origin: agents.Origin{Client: root}, PMIDs: ids, Profile: includeAll}
	n := testing.AllocsPerRun(50, func() {
		w.Reset(buf[:0], 0)
		if err := a.Fetch(context.Background(), r, &w); err != nil {
			t.Fatal(err)
		}
		b, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		buf = b
	})
	if n != 0 {
		t.Errorf("%v allocations for %d metrics", n, len(ids))
	}
}

func BenchmarkFetch(b *testing.B) {
	a := newAgent(newHost())
	var w pdu.ResultWriter
	var buf []byte
	for _, name := range []string{"pmcd.pid", "pmcd.pdu_in.total", "pmcd.agent.status", "pmcd.timezone", "pmcd.openfds", "pmcd.buf.alloc", "pmcd.datasize"} {
		b.Run(name, func(b *testing.B) {
			r := &agents.FetchRequest{PMIDs: []pdu.PMID{pmidOf(b, name)}, Profile: includeAll}
			b.ReportAllocs()
			for b.Loop() {
				w.Reset(buf[:0], 0)
				a.Fetch(context.Background(), r, &w)
				buf, _ = w.Finish()
			}
		})
	}
}
