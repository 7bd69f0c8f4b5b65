package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

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
				d := p.due(n)
				if d >= begin && d < begin+p.Every {
					fetches[n%p.Clients]++
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
	for logger, want := range map[bool][]pdu.Type{true: {pdu.TypeProfile, pdu.TypeHighResFetch}, false: {pdu.TypeFetch}} {
		var got []pdu.Type
		for _, b := range (&pacedParams{Logger: logger, IDs: []pdu.PMID{numClients}}).requests() {
			_, typ, _ := pdu.Header(b)
			got = append(got, typ)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, not %v", got, want)
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
		return &pdu.HighResResult{Sets: []pdu.ValueSet{{PMID: numClients, Values: slices.Repeat([]pdu.Value{{Inst: 1, Word: 2}}, n)}}}
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
					c.Write(encode(&pdu.Desc{PMID: numClients, InDom: 5}))
				default:
					c.Write(encode(&pdu.Error{Code: pdu.ErrnoText}))
				}
			}
			if m != nil {
				c.Write(encode(m))
			}
		}
	}()
	p := &pacer{pacedParams: pacedParams{Port: l.Addr().(*net.TCPAddr).Port, Clients: 1, Every: time.Second, Logger: true, IDs: []pdu.PMID{numClients}}}
	p.reqs = p.requests()
	if err := p.open(); err != nil {
		t.Fatal(err)
	}
	c := &p.clients[0]
	step := func(want pacedReport) {
		t.Helper()
		p.fetch(c)
		p.fetch(c) // is skipped while the first has no reply
		p.receive(c)
		got := p.report()
		got.P50, got.P99 = 0, 0
		if want.Values = 1; got != want {
			t.Errorf("%+v, not %+v", got, want)
		}
	}
	step(pacedReport{Skipped: 1}) // before the measurement
	p.from = time.Now()
	step(pacedReport{Fetches: 1, Skipped: 2})
	step(pacedReport{Fetches: 1, Skipped: 3, Errors: 1, Error: pdu.ErrnoAgain.Error()})
	step(pacedReport{Fetches: 1, Skipped: 4, Errors: 2, Error: pdu.ErrnoAgain.Error()})
	step(pacedReport{Fetches: 1, Skipped: 4, Errors: 2, Error: pdu.ErrnoAgain.Error()}) // no connection
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

func TestPacedValues(t *testing.T) {
	ids := []pdu.PMID{numClients, sampleOne}
	set := func(id pdu.PMID, n int) pdu.ValueSet {
		return pdu.ValueSet{PMID: id, Values: make([]pdu.Value, n)}
	}
	for _, tt := range []struct {
		name string
		m    pdu.Message
		want int // 0 is an error
	}{
		{"a metric without values", &pdu.Result{Sets: []pdu.ValueSet{set(numClients, 3), set(sampleOne, 0)}}, 3},
		{"high resolution", &pdu.HighResResult{Sets: []pdu.ValueSet{set(numClients, 3), set(sampleOne, 1)}}, 4},
		{"no values", &pdu.Result{Sets: []pdu.ValueSet{set(numClients, 0), set(sampleOne, 0)}}, 0},
		{"other metrics", &pdu.Result{Sets: []pdu.ValueSet{set(sampleOne, 1), set(numClients, 1)}}, 0},
		{"another PDU", &pdu.DescReq{PMID: numClients}, 0},
	} {
		if n, err := pacedValues(encode(tt.m), ids); err == nil && n != tt.want || err != nil && tt.want != 0 {
			t.Errorf("%s: %d values, %v", tt.name, n, err)
		}
	}
}

func TestParseSwitches(t *testing.T) {
	text := "Name:\tvoluntary_ctxt_switches: 1\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n"
	if got := parseSwitches(text); got != (switches{150, 545}) {
		t.Errorf("%+v", got)
	}
}

// TestSince tests processes and threads that begin or end between two moments.
func TestSince(t *testing.T) {
	before := usage{cpu: map[int]time.Duration{1: 100, 2: 50}, ended: 10,
		threads: map[string]switches{"1": {10, 20}, "2": {1000, 1000}}}
	after := usage{cpu: map[int]time.Duration{1: 130, 3: 7}, ended: 10 + 50 + 5,
		threads: map[string]switches{"1": {11, 22}, "3": {100, 200}}}
	if cpu, s := after.since(before); cpu != 30+7+5 || s != (switches{101, 202}) {
		t.Errorf("%v, %+v", cpu, s)
	}
	after.ended = 10 // nothing has waited for process 2
	if cpu, _ := after.since(before); cpu != 30+7 {
		t.Errorf("%v", cpu)
	}
}

// TestUsage tests a process below this one, and what is known of it when it has ended.
func TestUsage(t *testing.T) {
	before := usageOf(os.Getpid())
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	const enough = 200 * time.Millisecond
	for cpuTime(cmd.Process.Pid) < enough {
		if err := cmd.Process.Signal(nil); errors.Is(err, os.ErrProcessDone) {
			t.Fatal("sh has ended")
		}
		time.Sleep(time.Millisecond)
	}
	live := usageOf(os.Getpid())
	if live.cpu[cmd.Process.Pid] < enough {
		t.Errorf("CPU time of the process: %v", live.cpu[cmd.Process.Pid])
	}
	cmd.Process.Kill()
	cmd.Wait()
	ended := usageOf(os.Getpid())
	if _, lives := ended.cpu[cmd.Process.Pid]; lives {
		t.Error("the process is there")
	}
	if cpu, s := ended.since(before); cpu < enough*9/10 || s.voluntary == 0 {
		t.Errorf("since before: %v, %+v", cpu, s)
	}
	if used := ended.ended - before.ended; used < enough*9/10 {
		t.Errorf("of child processes that have ended: %v", used)
	}
}

func TestCalmScenarios(t *testing.T) {
	for _, s := range calmScenarios() {
		if !s.calm || !s.fresh || s.rounds == 0 || !strings.HasPrefix(s.name, "calm-") {
			t.Errorf("%s: calm %v, fresh %v, %d rounds", s.name, s.calm, s.fresh, s.rounds)
		}
	}
}
