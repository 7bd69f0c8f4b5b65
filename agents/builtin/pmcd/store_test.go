package pmcd

import (
	"context"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

func words(inst int32, n ...int32) pdu.ValueSet {
	vs := pdu.ValueSet{Format: pdu.FormatInsitu}
	for _, n := range n {
		vs.Values = append(vs.Values, pdu.Value{Inst: inst, Word: uint32(n)})
	}
	return vs
}

func block(typ pdu.MetricType, s ...string) pdu.ValueSet {
	vs := pdu.ValueSet{Format: 2} // the format in which clients store pmcd.client.whoami
	for _, s := range s {
		vs.Values = append(vs.Values, pdu.Value{Inst: pdu.NoInst, Type: typ, Block: []byte(s)})
	}
	return vs
}

func store(a *Agent, client int32, sets ...pdu.ValueSet) pdu.Errno {
	return errnoOf(a.Store(context.Background(), agents.Origin{Client: client}, &pdu.Result{Sets: sets}))
}

// keepingHost is a Host that keeps what clients say of themselves.
type keepingHost struct {
	*fakeHost
	whoami []string
}

func (h *keepingHost) SetWhoami(_ int32, s string) { h.whoami = append(h.whoami, s) }

// The memory of a long pmcd.client.whoami is that of what pmcd keeps of it.
func TestWhoamiMemory(t *testing.T) {
	h := &keepingHost{fakeHost: newHost()}
	a := newAgent(h)
	set := block(pdu.MetricString, strings.Repeat("x", 60000))
	set.PMID = pmidOf(t, "pmcd.client.whoami")
	inUse := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const n = 200
	before := inUse()
	for range n {
		if err := store(a, user, set); err != 0 {
			t.Fatal(err)
		}
	}
	if got, most := inUse()-before, int64(2*n*maxWhoami); got > most {
		t.Errorf("%d bytes are in use after %d stores, want %d at most", got, n, most)
	}
	runtime.KeepAlive(h)
}

func TestStore(t *testing.T) {
	const (
		sign  = pdu.ErrnoSign
		conv  = pdu.ErrnoConv
		bad   = pdu.ErrnoBadStore
		perm  = pdu.ErrnoPermission
		pmid  = pdu.ErrnoPMID
		inst  = pdu.ErrnoInst
		inval = pdu.ErrnoEINVAL
		gone  = 77 // no such client
	)
	for _, tt := range []struct {
		name   string
		client int32
		set    pdu.ValueSet
		err    pdu.Errno
		then   func(h *fakeHost) any // nil: the store has changed nothing
		want   any
	}{
		{"pmcd.control.timeout", root, words(-1, 7), 0, func(h *fakeHost) any { return h.status.Timeout }, 7 * time.Second},
		{"pmcd.control.timeout", root, words(-1, 0), 0, func(h *fakeHost) any { return h.status.Timeout }, time.Duration(0)},
		{"pmcd.control.timeout", root, words(5, 7, 8), 0, func(h *fakeHost) any { return h.status.Timeout }, 7 * time.Second},
		{"pmcd.control.timeout", root, words(-1, -1), sign, nil, nil},
		{"pmcd.control.timeout", root, words(-1), 0, nil, nil},
		{"pmcd.control.timeout", root, pdu.ValueSet{Err: pdu.ErrnoGeneric}, 0, nil, nil},
		{"pmcd.control.timeout", root, block(u64, "\x00\x00\x00\x00\x00\x00\x00\x07"), conv, nil, nil},
		{"pmcd.control.timeout", user, words(-1, 7), perm, nil, nil},
		{"pmcd.control.timeout", remote, words(-1, 7), perm, nil, nil},
		{"pmcd.control.timeout", gone, words(-1, 7), perm, nil, nil},
		{"pmcd.control.creds_timeout", root, words(-1, 1), 0, func(h *fakeHost) any { return h.status.CredsTimeout }, time.Second},
		{"pmcd.control.creds_timeout", root, words(-1, 0), conv, nil, nil},
		{"pmcd.control.creds_timeout", root, words(-1, -1), sign, nil, nil},
		{"pmcd.control.creds_timeout", user, words(-1, 1), perm, nil, nil},
		{"pmcd.control.debug", root, block(str, "fetch\x00"), 0, func(h *fakeHost) any { return h.status.Debug }, "fetch"},
		{"pmcd.control.debug", root, block(str, "\x00"), 0, func(h *fakeHost) any { return h.status.Debug }, ""},
		{"pmcd.control.debug", root, block(str, "nonsense\x00"), conv, nil, nil},
		{"pmcd.control.debug", root, words(-1, 3), conv, nil, nil},
		{"pmcd.control.debug", root, block(str), 0, nil, nil},
		{"pmcd.control.debug", user, block(str, "fetch\x00"), perm, nil, nil},
		{"pmcd.control.traceconn", root, words(-1, 0), 0, func(h *fakeHost) any { return h.status.Trace }, TraceNoBuf},
		{"pmcd.control.tracepdu", root, words(-1, 1), 0, func(h *fakeHost) any { return h.status.Trace }, TraceConn | TracePDU | TraceNoBuf},
		{"pmcd.control.tracenobuf", root, words(-1, 0), 0, func(h *fakeHost) any { return h.status.Trace }, TraceConn},
		{"pmcd.control.tracenobuf", root, words(-1, 2), bad, nil, nil},
		{"pmcd.control.tracepdu", root, words(-1, -1), bad, nil, nil},
		{"pmcd.control.tracepdu", user, words(-1, 1), perm, nil, nil},
		{"pmcd.control.tracebufs", root, words(-1, 0), 0, func(h *fakeHost) any { return h.status.TraceBufs }, 0},
		{"pmcd.control.tracebufs", root, words(-1, 100), 0, func(h *fakeHost) any { return h.status.TraceBufs }, 100},
		{"pmcd.control.tracebufs", root, words(-1, 1<<30), bad, nil, nil},
		{"pmcd.control.tracebufs", root, words(-1, -1), sign, nil, nil},
		{"pmcd.control.dumptrace", root, words(-1, -9), 0, func(h *fakeHost) any { return h.calls }, []string{"DumpTrace"}},
		{"pmcd.control.dumpconn", root, words(-1, 0), 0, func(h *fakeHost) any { return h.calls }, []string{"DumpClients"}},
		{"pmcd.control.sighup", root, words(-1, 1), 0, func(h *fakeHost) any { return h.calls }, []string{"Sighup"}},
		{"pmcd.control.sighup", user, words(-1, 1), perm, nil, nil},
		{"pmcd.seqnum", remote, words(-1, 99), 0, func(h *fakeHost) any { return h.status.Seqnum }, uint32(6)},
		{"pmcd.version", root, block(str, "1\x00"), pmid, nil, nil},
		{"pmcd.version", user, block(str, "1\x00"), perm, nil, nil},
		{"pmcd.pid", root, words(-1, 1), pmid, nil, nil},
		{"pmcd.pdu_in.total", user, words(-1, 1), pmid, nil, nil},
		{"pmcd.agent.name", user, block(str, "x\x00"), pmid, nil, nil},
		{"pmcd.agent.fenced", root, words(60, 1), 0, fenced, []int{60, 30}},
		{"pmcd.agent.fenced", root, words(30, 0), 0, fenced, []int(nil)},
		{"pmcd.agent.fenced", root, words(-1, 1), 0, fenced, []int{60, 30, 11}},
		{"pmcd.agent.fenced", root, words(-1, 0), 0, fenced, []int(nil)},
		{"pmcd.agent.fenced", root, words(2, 1), 0, nil, nil},
		{"pmcd.agent.fenced", root, words(60, 2), bad, nil, nil},
		{"pmcd.agent.fenced", root, words(99, 1), inst, nil, nil},
		{"pmcd.agent.fenced", user, words(60, 1), perm, nil, nil},
		{"pmcd.agent.fenced", remote, words(60, 1), perm, nil, nil},
		{"pmcd.client.whoami", user, block(str, "me\x00\x00\x00~~"), 0, whoami, []string{"vm -x", "me", ""}},
		{"pmcd.client.whoami", remote, block(str, "no NUL"), 0, whoami, []string{"vm -x", "", "no NUL"}},
		{"pmcd.client.whoami", root, block(str, ""), 0, whoami, []string{"", "", ""}},
		{"pmcd.client.whoami", user, block(str, strings.Repeat("x", 60000)), 0, whoami, []string{"vm -x", strings.Repeat("x", 4096), ""}},
		{"pmcd.client.whoami", user, block(str), inst, nil, nil},
		{"pmcd.client.whoami", user, block(str, "a", "b"), inst, nil, nil},
		{"pmcd.client.whoami", user, words(-1, 1), conv, nil, nil},
		{"pmcd.client.whoami", user, block(u64, "12345678"), conv, nil, nil},
		{"pmcd.client.whoami", gone, block(str, "me\x00"), perm, nil, nil},
		{"pmcd.client.start_date", user, block(str, "x\x00"), pmid, nil, nil},
		{"pmcd.client.container", remote, block(str, "a-B_0.9\x00"), 0, containers, []string{"", "box", "a-B_0.9"}},
		{"pmcd.client.container", user, block(str, "\x00"), 0, containers, []string{"", "", ""}},
		{"pmcd.client.container", user, block(str, "a b\x00"), inval, nil, nil},
		{"pmcd.client.container", user, block(str, `x","y":"`), inval, nil, nil},
		{"pmcd.client.container", user, block(str, "../x\x00"), inval, nil, nil},
		{"pmcd.client.container", user, block(str, strings.Repeat("x", 256)), inval, nil, nil},
		{"pmcd.client.container", user, block(str, "a", "b"), inst, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost()
			a := newAgent(h)
			tt.set.PMID = pmidOf(t, tt.name)
			if err := store(a, tt.client, tt.set); err != tt.err {
				t.Errorf("client %d stores %v: got %v, want %v", tt.client, tt.set.Values, err, tt.err)
				return
			}
			if tt.then != nil {
				if got := tt.then(h); !reflect.DeepEqual(got, tt.want) {
					t.Errorf("client %d stores %v: got %v, want %v", tt.client, tt.set.Values, got, tt.want)
				}
				return
			}
			if want := newHost(); !reflect.DeepEqual(h, want) {
				t.Errorf("client %d stores %v: something has changed: %+v", tt.client, tt.set.Values, h)
			}
		})
	}
}

func fenced(h *fakeHost) any {
	var list []int
	for _, a := range h.agents {
		if a.Fenced {
			list = append(list, a.Domain)
		}
	}
	return list
}

func whoami(h *fakeHost) any {
	var list []string
	for _, c := range h.clients {
		list = append(list, c.Whoami)
	}
	return list
}

func containers(h *fakeHost) any {
	var list []string
	for _, c := range h.clients {
		list = append(list, c.Container)
	}
	return list
}

func TestStoreToMetricsThatDoNotExist(t *testing.T) {
	a := newAgent(newHost())
	for _, tt := range []struct {
		id     pdu.PMID
		client int32
		want   pdu.Errno
	}{
		{id(0, 99), root, pdu.ErrnoPMID},
		{id(0, 99), user, pdu.ErrnoPermission},
		{id(99, 0), user, pdu.ErrnoPMID},
		{pdu.NewPMID(3, 1, 0), root, pdu.ErrnoPMID},
	} {
		if got := store(a, tt.client, pdu.ValueSet{PMID: tt.id}); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.id, got, tt.want)
		}
	}
	if got := store(a, user); got != 0 {
		t.Errorf("nothing: got %v", got)
	}
}

// TestRegisters stores several instances at once. Those before an invalid instance
// are stored.
func TestRegisters(t *testing.T) {
	a := newAgent(newHost())
	reg := pmidOf(t, "pmcd.control.register")
	vs := pdu.ValueSet{PMID: reg, Values: []pdu.Value{{Inst: 0, Word: 5}, {Inst: 15, Word: 0xffffffff}}}
	if got := store(a, root, vs); got != 0 {
		t.Fatal(got)
	}
	for _, inst := range []int32{-1, 16} {
		vs.Values = []pdu.Value{{Inst: 3, Word: 4}, {Inst: inst}, {Inst: 0, Word: 6}}
		if got := store(a, root, vs); got != pdu.ErrnoInst {
			t.Errorf("instance %d: got %v", inst, got)
		}
	}
	vs.Values = vs.Values[:1]
	if got := store(a, user, vs); got != pdu.ErrnoPermission {
		t.Errorf("user: got %v", got)
	}
	for _, v := range values(t, a, user, includeAll, reg) {
		want := map[int32]int64{0: 5, 3: 4, 15: -1}[v.inst]
		if v.value != want {
			t.Errorf("register %d: got %v, want %v", v.inst, v.value, want)
		}
	}
}

// TestStoreStopsAtTheFirstError stores several metrics at once.
func TestStoreStopsAtTheFirstError(t *testing.T) {
	h := newHost()
	a := newAgent(h)
	set := func(n int32) pdu.ValueSet {
		vs := words(-1, n)
		vs.PMID = pmidOf(t, "pmcd.control.timeout")
		return vs
	}
	if got := store(a, root, set(8), set(-1), set(9)); got != pdu.ErrnoSign {
		t.Errorf("got %v", got)
	}
	if h.status.Timeout != 8*time.Second {
		t.Errorf("timeout is %v", h.status.Timeout)
	}
}
