package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// numClientsID is the PMID of numClients.
var numClientsID = pdu.NewPMID(2, 0, 3)

// TestPaced tests the schedule: a time of one interval that begins in a pause has one fetch of
// each client, and no fetch is due near its ends.
func TestPaced(t *testing.T) {
	for _, p := range []pacedParams{
		{Clients: 1, Every: time.Second},
		{Clients: 20, Every: time.Second},
		{Clients: 3, Every: 10 * time.Second},
		{Clients: 20, Every: time.Second, Burst: true},
	} {
		for _, now := range []time.Duration{0, 1, p.gap() / 2, p.gap()/2 + 1, p.gap(), 3*p.Every - 1} {
			begin := p.pause(now)
			if begin < now || begin > now+p.gap() {
				t.Errorf("%+v: %v is %v after %v", p, begin, begin-now, now)
			}
			fetches := make([]int, p.Clients)
			for n := range 10 * p.Clients {
				i := n % p.Clients
				d := p.due(i, n/p.Clients)
				if d >= begin && d < begin+p.Every {
					fetches[i]++
				}
				if near := p.gap() / 4; d > begin-near && d < begin+near {
					t.Errorf("%+v: fetch %d is due at %v, the pause is at %v", p, n, d, begin)
				}
			}
			if slices.ContainsFunc(fetches, func(n int) bool { return n != 1 }) {
				t.Errorf("%+v from %v: %v fetches", p, begin, fetches)
			}
		}
	}
}

func TestPacedRequests(t *testing.T) {
	ids := []pdu.PMID{numClientsID}
	for _, tt := range []struct {
		p    pacedParams
		want [][]pdu.Type // by write
	}{
		{pacedParams{IDs: ids, Logger: true}, [][]pdu.Type{{pdu.TypeProfile}, {pdu.TypeHighResFetch}}},
		{pacedParams{IDs: ids}, [][]pdu.Type{{pdu.TypeFetch}}},
		{pacedParams{IDs: ids, Newcomers: true}, [][]pdu.Type{{pdu.TypeProfile, pdu.TypeFetch}}},
	} {
		var got [][]pdu.Type
		for _, write := range tt.p.requests() {
			var types []pdu.Type
			for r := pdu.NewReader(bytes.NewReader(write), 0); ; {
				b, err := r.Next()
				if err != nil {
					break
				}
				_, typ, _ := pdu.Header(b)
				types = append(types, typ)
			}
			got = append(got, types)
		}
		if !slices.EqualFunc(got, tt.want, slices.Equal[[]pdu.Type]) {
			t.Errorf("%+v: %v, not %v", tt.p, got, tt.want)
		}
	}
}

// TestPacer tests a logger of a pmcd that has one metric and no labels. It replies with values,
// with more values, with an ERROR PDU, and then closes the connection.
func TestPacer(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sets := func(n int) pdu.Message {
		return &pdu.HighResResult{Sets: []pdu.ValueSet{{PMID: numClientsID, Values: slices.Repeat([]pdu.Value{{Inst: 1, Word: 2}}, n)}}}
	}
	asked := make(chan pdu.Type, 40)
	go func() {
		defer close(asked)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		c.Write(encode(&pdu.Error{Greeting: true, Info: pdu.GreetingInfo(0)}))
		r := pdu.NewReader(c, 0)
		for _, m := range []pdu.Message{sets(1), sets(1), sets(2), &pdu.Error{Code: pdu.ErrnoAgain}, nil} {
			for {
				b, err := r.Next()
				if err != nil {
					return
				}
				_, typ, _ := pdu.Header(b)
				asked <- typ
				if typ == pdu.TypeHighResFetch {
					break
				}
				switch typ {
				case pdu.TypeCreds, pdu.TypeProfile:
				case pdu.TypeDescReq:
					c.Write(encode(&pdu.Desc{PMID: numClientsID, InDom: 5}))
				default:
					c.Write(encode(&pdu.Error{Code: pdu.ErrnoText}))
				}
			}
			if m != nil {
				c.Write(encode(m))
			}
		}
	}()
	p := &paced{pacedParams: pacedParams{Network: "tcp4", Addr: l.Addr().String(), Clients: 1, Every: time.Second, Logger: true, IDs: []pdu.PMID{numClientsID}}}
	conns, err := p.open()
	if err != nil {
		t.Fatal(err)
	}
	c := conns[0]
	for i, want := range []error{nil, nil, pdu.ErrnoAgain, io.EOF} {
		err := p.fetch(c)
		p.add(fetchTime, time.Now(), err)
		if !errors.Is(err, want) {
			t.Errorf("fetch %d: %v, not %v", i, err, want)
		}
	}
	c.Close()
	p.since[0] = time.Now().Add(-2 * lateAfter) // a fetch is under way
	r := p.report()
	w := r.Watches[fetchTime]
	w.P50, w.P99, w.Max = 0, 0, 0
	if want := (watched{Fetches: 7, Failed: 2, Error: pdu.ErrnoAgain.Error(), Late: 1}); w != want || r.Values != 1 {
		t.Errorf("%+v, not %+v; %d values", w, want, r.Values)
	}
	var got []pdu.Type
	for typ := range asked {
		got = append(got, typ)
	}
	want := []pdu.Type{pdu.TypeCreds, pdu.TypeProfile, pdu.TypeDescReq, pdu.TypeLabelReq, pdu.TypeLabelReq, // of the context and the domain
		pdu.TypeInstanceReq, pdu.TypeLabelReq, pdu.TypeLabelReq, pdu.TypeTextReq, pdu.TypeTextReq,
		pdu.TypePMNSIDs, pdu.TypeLabelReq, pdu.TypeLabelReq, pdu.TypeTextReq, pdu.TypeTextReq}
	for range 5 {
		want = append(want, pdu.TypeProfile, pdu.TypeHighResFetch)
	}
	if !slices.Equal(got, want) {
		t.Errorf("pmcd has got %v, not %v", got, want)
	}
}

func TestValues(t *testing.T) {
	one, two := pdu.NewPMID(2, 0, 3), pdu.NewPMID(domainSample, 0, 10)
	set := func(id pdu.PMID, n int) pdu.ValueSet {
		return pdu.ValueSet{PMID: id, Values: make([]pdu.Value, n)}
	}
	for _, tt := range []struct {
		name      string
		m         pdu.Message
		some, all int // 0 is an error
	}{
		{"a metric without values", &pdu.Result{Sets: []pdu.ValueSet{set(one, 3), set(two, 0)}}, 3, 0},
		{"high resolution", &pdu.HighResResult{Sets: []pdu.ValueSet{set(one, 3), set(two, 1)}}, 4, 4},
		{"no values", &pdu.Result{Sets: []pdu.ValueSet{set(one, 0), set(two, 0)}}, 0, 0},
		{"other metrics", &pdu.Result{Sets: []pdu.ValueSet{set(two, 1), set(one, 1)}}, 0, 0},
		{"another PDU", &pdu.DescReq{PMID: one}, 0, 0},
	} {
		for all, want := range map[bool]int{false: tt.some, true: tt.all} {
			sets, err := valuesOf(encode(tt.m), []pdu.PMID{one, two})
			n := 0
			if err == nil {
				n, err = count(sets, all)
			}
			if (err == nil) != (want > 0) || err == nil && n != want {
				t.Errorf("%s, all %v: %d values, %v", tt.name, all, n, err)
			}
		}
	}
}

func TestProcNumber(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status")
	if err := os.WriteFile(path, []byte("Name:\tvoluntary_ctxt_switches: 1\nVmRSS:\t  4660 kB\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int64{"VmRSS": 4660, "voluntary_ctxt_switches": 150, "nonvoluntary_ctxt_switches": 545, "VmHWM": 0} {
		if got := procNumber(path, name); got != want {
			t.Errorf("%s is %d, not %d", name, got, want)
		}
	}
}

// TestSince tests threads that begin or end between two moments.
func TestSince(t *testing.T) {
	before := usage{daemon: 100, all: 150, switches: map[string][2]int64{"1": {10, 20}, "2": {1000, 1000}}}
	after := usage{daemon: 130, all: 187, switches: map[string][2]int64{"1": {11, 22}, "3": {100, 200}}}
	if daemon, all, voluntary, involuntary := after.since(before); daemon != 30 || all != 37 || voluntary != 101 || involuntary != 202 {
		t.Errorf("%v, %v, %d, %d", daemon, all, voluntary, involuntary)
	}
}

// TestUsage tests a process below this one.
func TestUsage(t *testing.T) {
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	pid := cmd.Process.Pid
	below := treeOf(os.Getpid())
	if !slices.Contains(below.agents, pid) {
		t.Fatalf("%d is not in %+v", pid, below)
	}
	before := below.usage()
	const enough = 200 * time.Millisecond
	from := cpuTime(pid)
	testutil.Eventually(t, "the process has run", func() bool { return cpuTime(pid) > from+enough })
	daemon, all, _, involuntary := below.usage().since(before)
	if all-daemon < enough/2 {
		t.Errorf("CPU time of this process %v, with the other %v; %d switches", daemon, all, involuntary)
	}
	if n := below.memory("VmRSS"); n <= rss(os.Getpid()) || memoryOf(pid, "Pss_Anon") == 0 {
		t.Errorf("%d bytes of both", n)
	}
}

func TestCalmScenarios(t *testing.T) {
	for _, s := range calmScenarios() {
		if !s.calm || !s.fresh || s.rounds == 0 || !strings.HasPrefix(s.name, "calm-") {
			t.Errorf("%s: calm %v, fresh %v, %d rounds", s.name, s.calm, s.fresh, s.rounds)
		}
	}
}
