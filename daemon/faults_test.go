package daemon

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

// script plays an agent that greets, waits for a request of a type, and then
// does something of its own with the stream. Up to then it is a tester.
func script(domain int, at pdu.Type, do func(c wire.Conn, req []byte)) func(wire.Conn) {
	return func(c wire.Conn) {
		hello, _ := pdu.Append(nil, 1, pdutest.Creds(0))
		c.Write(hello)
		r := pdu.NewReader(c, 0)
		for {
			b, err := r.Next()
			if err != nil {
				return
			}
			switch _, t, _ := pdu.Header(b); t {
			case at:
				do(c, b)
				return
			case pdu.TypeFetch:
				var m pdu.Fetch
				pdu.ParseInto(b, &m)
				c.Write(result(m.PMIDs...))
			case pdu.TypeDescReq:
				var m pdu.DescReq
				pdu.ParseInto(b, &m)
				reply, _ := pdu.Append(nil, 0, &pdu.Desc{PMID: m.PMID})
				c.Write(reply)
			}
		}
	}
}

// result is a RESULT with the value 1 for each of ids.
func result(ids ...pdu.PMID) []byte {
	var m pdu.Result
	for _, id := range ids {
		m.Sets = append(m.Sets, pdu.ValueSet{PMID: id, Values: []pdu.Value{{Inst: -1, Word: 1}}})
	}
	b, _ := pdu.Append(nil, 0, &m)
	return b
}

func word(ws ...uint32) []byte {
	var b []byte
	for _, w := range ws {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

func errorPDU(code pdu.Errno) []byte {
	return word(pdu.HeaderLen+4, uint32(pdu.TypeError), 0, uint32(code))
}

// hold keeps the agent's end open until the Daemon closes its own.
func hold(c wire.Conn) { io.Copy(io.Discard, c) }

// Whatever an agent does in place of an answer to a fetch, its metrics have
// an error, the others of the same fetch and other clients have values, and
// the agent is dropped or not.
func TestAgentFaultsInFetch(t *testing.T) {
	const again = "PM_ERR_AGAIN"
	tests := []struct {
		name    string
		do      func(c wire.Conn, req []byte)
		want    string // of the metric
		dropped bool
	}{
		{"dies", func(c wire.Conn, _ []byte) {}, "PM_ERR_IPC", true},
		{"dies after half a header", func(c wire.Conn, _ []byte) { c.Write(word(0x20)) }, "PM_ERR_IPC", true},
		{"dies after half a PDU", func(c wire.Conn, _ []byte) { c.Write(result(id(240, 1))[:30]) }, "PM_ERR_IPC", true},
		{"answers another type", func(c wire.Conn, _ []byte) {
			b, _ := pdu.Append(nil, 0, &pdu.Desc{})
			c.Write(b)
			hold(c)
		}, "PM_ERR_IPC", true},
		{"answers too few", func(c wire.Conn, _ []byte) { c.Write(result()); hold(c) }, "PM_ERR_IPC", true},
		{"answers too many", func(c wire.Conn, _ []byte) { c.Write(result(id(240, 1), id(240, 1))); hold(c) }, "PM_ERR_IPC", true},
		{"answers for another metric", func(c wire.Conn, _ []byte) { c.Write(result(id(240, 2))); hold(c) }, "PM_ERR_IPC", true},
		{"answers what cannot be decoded", func(c wire.Conn, _ []byte) {
			b := result(id(240, 1))
			binary.BigEndian.PutUint32(b[28:], 1<<30) // values
			c.Write(b)
			hold(c)
		}, "PM_ERR_IPC", true},
		{"answers a negative length", func(c wire.Conn, _ []byte) { c.Write(word(1<<31, 0x7001, 0)); hold(c) }, "PM_ERR_IPC", true},
		{"answers a huge length and dies", func(c wire.Conn, _ []byte) { c.Write(word(0x7fffff00, 0x7001, 0)) }, "PM_ERR_IPC", true},
		{"answers twice", func(c wire.Conn, _ []byte) {
			c.Write(append(result(id(240, 1)), result(id(240, 1))...))
			hold(c)
		}, "1", true},
		{"answers an error", func(c wire.Conn, _ []byte) { c.Write(errorPDU(pdu.ErrnoAppVersion)); hold(c) }, "PM_ERR_APPVERSION", false},
		{"answers that all is well", func(c wire.Conn, _ []byte) { c.Write(errorPDU(0)); hold(c) }, "PM_ERR_GENERIC", false},
		{"answers a positive error", func(c wire.Conn, _ []byte) { c.Write(errorPDU(4)); hold(c) }, "PM_ERR_GENERIC", false},
		{"answers PM_ERR_IPC", func(c wire.Conn, _ []byte) { c.Write(errorPDU(pdu.ErrnoIPC)); hold(c) }, "PM_ERR_IPC", true},
		{"answers that it is not ready", func(c wire.Conn, _ []byte) { c.Write(errorPDU(pdu.ErrnoNotReady)); hold(c) }, again, false},
		{"never answers", func(c wire.Conn, _ []byte) { hold(c) }, again, false},
		{"floods", func(c wire.Conn, _ []byte) {
			for b := result(id(240, 1)); ; {
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}, "1", true},
	}
	for _, tt := range tests {
		for _, several := range []bool{false, true} {
			name := tt.name
			if several {
				name += ", among others"
			}
			t.Run(name, func(t *testing.T) {
				r := newHarness(t, func(c *Config) { c.RequestTimeout = 300 * time.Millisecond },
					map[int]func(wire.Conn){240: script(240, pdu.TypeFetch, tt.do)})
				c, other := r.dial(), r.dial()
				c.send(&pdu.Profile{})
				other.send(&pdu.Profile{})
				ids, want := []pdu.PMID{id(240, 1)}, "240.0.1="+tt.want
				if several {
					ids, want = append(ids, id(241, 1)), want+" 241.0.1=241"
				}
				sets, changes := c.fetch(ids...)
				if got := showSets(sets); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if tt.dropped {
					var all pdu.Errno
					for {
						all |= changes
						if sets, changes = c.fetch(ids[0]); showSets(sets) == "240.0.1=PM_ERR_NOAGENT" {
							break
						}
					}
					if all|changes != pdu.StateDropAgent {
						t.Errorf("state changes %d, want %d", all|changes, pdu.StateDropAgent)
					}
					r.awaitLogged(t, "Cleanup \"t\" agent (dom 240)")
				} else if changes != 0 || r.routes.Load().Agent(240).Conn() == nil {
					t.Errorf("dropped, state changes %d", changes)
				}
				other.fetch(id(2, 2)) // takes the notice
				if sets, _ := other.fetch(id(241, 1)); showSets(sets) != "241.0.1=241" {
					t.Errorf("the other client: %s", showSets(sets))
				}
			})
		}
	}
}

// Faults in answer to other requests.
func TestAgentFaults(t *testing.T) {
	answer := func(b []byte) func(c wire.Conn, _ []byte) {
		return func(c wire.Conn, _ []byte) { c.Write(b); hold(c) }
	}
	tests := []struct {
		name    string
		req     pdu.Message
		do      func(c wire.Conn, req []byte)
		want    string
		dropped bool
	}{
		{"desc: dies", &pdu.DescReq{PMID: id(240, 1)}, func(wire.Conn, []byte) {}, "PM_ERR_IPC", true},
		{"desc: never", &pdu.DescReq{PMID: id(240, 1)}, func(c wire.Conn, _ []byte) { hold(c) }, "PM_ERR_AGAIN", false},
		{"desc: another type", &pdu.DescReq{PMID: id(240, 1)}, answer(result()), "PM_ERR_IPC", true},
		{"desc: an error", &pdu.DescReq{PMID: id(240, 1)}, answer(errorPDU(pdu.ErrnoIPC)), "PM_ERR_IPC", false},
		{"desc: no error", &pdu.DescReq{PMID: id(240, 1)}, answer(errorPDU(0)), "PM_ERR_GENERIC", false},
		{"desc: long", &pdu.DescReq{PMID: id(240, 1)}, answer(append(word(36, 0x7005, 0), make([]byte, 24)...)), "PM_ERR_IPC", true},
		{"text: an error", &pdu.TextReq{Ident: uint32(id(240, 1)), Kind: 5}, answer(errorPDU(pdu.ErrnoIPC)), "PM_ERR_IPC", true},
		{"instance: lies", &pdu.InstanceReq{InDom: pdu.NewInDom(240, 1), Inst: -1}, answer(word(24, 0x7007, 0, 1, 1<<30, 0)), "PM_ERR_IPC", true},
		{"labels: lies", &pdu.LabelReq{Kind: pdu.LabelDomain, Ident: 240}, answer(word(28, 0x7013, 0, 240, 2, 0, 1<<30)), "PM_ERR_IPC", true},
		{"name: dies", &pdu.PMNSNames{Names: []string{"d.x"}}, func(wire.Conn, []byte) {}, "PM_ERR_IPC", true},
		{"name: two for one", &pdu.PMNSNames{Names: []string{"d.x"}}, answer(word(28, 0x700d, 0, 2, 2, 1, 2)), "PM_ERR_IPC", false},
		{"child: a positive code", &pdu.PMNSChild{Name: "d"}, answer(errorPDU(1)), "-12345 [] []", false},
		{"traverse: dies", &pdu.PMNSTraverse{Name: "d"}, func(wire.Conn, []byte) {}, "PM_ERR_IPC", true},
		{"store: an error", &pdu.Result{Sets: []pdu.ValueSet{{PMID: id(240, 1)}}}, answer(errorPDU(pdu.ErrnoBadStore)), "PM_ERR_BADSTORE", false},
		{"store: not an error", &pdu.Result{Sets: []pdu.ValueSet{{PMID: id(240, 1)}}}, answer(result()), "PM_ERR_IPC", true},
		{"store: dies", &pdu.Result{Sets: []pdu.ValueSet{{PMID: id(240, 1)}}}, func(wire.Conn, []byte) {}, "PM_ERR_IPC", true},
		{"store: a positive code", &pdu.Result{Sets: []pdu.ValueSet{{PMID: id(240, 1)}}}, answer(errorPDU(1)), "0", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newHarness(t, func(c *Config) { c.RequestTimeout = 100 * time.Millisecond },
				map[int]func(wire.Conn){240: script(240, tt.req.Type(), tt.do)})
			c := r.dial()
			if got := show(c.do(tt.req)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if down := r.routes.Load().Agent(240).Conn() == nil; down != tt.dropped {
				t.Errorf("dropped: %v, want %v", down, tt.dropped)
			}
			if m := c.do(&pdu.DescReq{PMID: id(241, 1)}); m.Type() != pdu.TypeDesc {
				t.Errorf("another agent: %s", show(m))
			}
		})
	}
}

// An agent that cannot be started costs its metrics, and the log says why.
func TestAgentThatDoesNotStart(t *testing.T) {
	hello := func(b []byte) func(wire.Conn) {
		return func(c wire.Conn) { c.Write(b); hold(c) }
	}
	for name, play := range map[string]func(wire.Conn){
		"dies":                 func(wire.Conn) {},
		"stalls":               hold,
		"talks nonsense":       hello([]byte("hello world, this is no PDU")),
		"sends another PDU":    hello(errorPDU(0)),
		"has no version":       hello(word(20, 0x700c, 0, 1, 1<<24)),
		"dies after its creds": func(c wire.Conn) { c.Write(word(20, 0x700c, 0, 1, 0x01020000)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newHarness(t, func(c *Config) { c.HandshakeTimeout = 200 * time.Millisecond }, map[int]func(wire.Conn){240: play})
			c := r.dial()
			c.send(&pdu.Profile{})
			testutil.Eventually(t, "no agent", func() bool {
				sets, _ := c.fetch(id(240, 1), id(241, 1))
				return showSets(sets) == "240.0.1=PM_ERR_NOAGENT 241.0.1=241"
			})
			r.awaitLogged(t, "\"t\" agent (dom 240)")
			for _, raw := range []string{"deadline", "EOF", "i/o timeout", "closed network"} {
				if r.logged(raw) || strings.Contains(r.Agents()[1].LastError, raw) {
					t.Errorf("%q shows details of Go", raw)
				}
			}
			if name == "stalls" && !strings.HasSuffix(r.Agents()[1].LastError, ": no answer in 200ms (-q)") {
				t.Errorf("the reason is %q", r.Agents()[1].LastError)
			}
			if got := show(c.do(&pdu.DescReq{PMID: id(240, 1)})); got != "PM_ERR_NOAGENT" {
				t.Errorf("desc: %s", got)
			}
			if m := c.do(&pdu.PMNSTraverse{}).(*pdu.PMNSNames); !slices.Contains(m.Names, "d") {
				t.Errorf("traverse: %q", m.Names)
			}
			r.play(240, serveAgent(&tester{domain: 240}))
			r.Reload()
			testutil.Eventually(t, "restarted", func() bool {
				sets, _ := c.fetch(id(240, 1))
				return showSets(sets) == "240.0.1=240"
			})
		})
	}
}

// What a client can do wrong costs that client only.
func TestClientFaults(t *testing.T) {
	desc, _ := pdu.Append(nil, 0, &pdu.DescReq{PMID: id(241, 1)})
	usable := func(c *client) { // the next request is answered
		if m := c.do(&pdu.DescReq{PMID: id(241, 1)}); m.Type() != pdu.TypeDesc {
			c.t.Errorf("then: %s", show(m))
		}
	}
	fails := func(want string) func(*client) {
		return func(c *client) {
			c.t.Helper()
			if got := show(c.recv()); got != want {
				c.t.Errorf("got %s, want %s", got, want)
			}
			usable(c)
		}
	}
	closed := func(c *client) { c.t.Helper(); c.closed() }
	big := func(n int) []byte { return append(word(uint32(n), 0x7004, 0), make([]byte, n-12)...) }
	fetch := func(n int) []byte {
		b, _ := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: make([]pdu.PMID, n)})
		return b
	}
	profiles := func(first, n uint32) (b []byte) {
		for context := range n {
			b = append(b, word(28, 0x7002, 0, first+context, 0, 0, 0)...)
		}
		return b
	}
	tests := []struct {
		name  string
		bytes []byte
		then  func(*client)
	}{
		{"half a header and silence", desc[:6], closed},
		{"half a PDU and silence", desc[:13], closed},
		{"a whole one and half of the next", append(append([]byte(nil), desc...), desc[:14]...), func(c *client) { c.recv(); c.closed() }},
		{"a negative length", word(0x80000000, 0x7004, 0), closed},
		{"a length of 0", word(0, 0x7004, 0), closed},
		{"a length shorter than a header", word(11, 0x7004, 0), closed},
		{"a length over the limit", word(64<<10+4, 0x7004, 0), closed},
		{"a huge length", word(0x7fffffff, 0x7004, 0), closed},
		{"a length at the limit", big(64 << 10), fails("PM_ERR_IPC")},
		{"type 0", word(12, 0, 0), closed},
		{"a negative type", word(12, 0xffff0000, 0), closed},
		{"an unknown type", word(12, 0x7777, 0), fails("PM_ERR_IPC")},
		{"the retired type", word(12, 0x700b, 0), fails("PM_ERR_IPC")},
		{"CONTROL_REQ", word(12, 0x700a, 0), fails("PM_ERR_IPC")},
		{"an ATTR out of turn", word(20, 0x7011, 0, 15, 0x61616161), fails("PM_ERR_IPC")},
		{"a body too short", word(12, 0x7004, 0), fails("PM_ERR_IPC")},
		{"a body too long", word(20, 0x7004, 0, 1, 2), fails("PM_ERR_IPC")},
		{"a fetch of nothing", word(28, 0x7003, 0, 0, 0, 0, 0), fails("PM_ERR_IPC")},
		{"a fetch of fewer than it says", word(32, 0x7003, 0, 0, 0, 0, 2, 1), fails("PM_ERR_IPC")},
		{"a fetch of more than it says", word(36, 0x7003, 0, 0, 0, 0, 1, 1, 1), fails("PM_ERR_IPC")},
		{"contexts beyond the limit", profiles(100, 65), func(c *client) {
			if m := c.recv().(*pdu.Error); m.Code != -11 {
				c.t.Errorf("got %v, want -EAGAIN", m.Code)
			}
			usable(c)
		}},
		{"a negative context", word(28, 0x7002, 0, 0xffffffff, 0, 0, 0), fails("PM_ERR_IPC")},
		{"a profile that lies", word(28, 0x7002, 0, 0, 0, 1<<28, 0), fails("PM_ERR_IPC")},
		{"a fetch in a negative context", word(32, 0x7003, 0, 0xffffffff, 0, 0, 1, 1), fails("PM_ERR_NOPROFILE")},
		{"a fetch in a context with a high number", word(32, 0x7003, 0, 1<<20, 0, 0, 1, 1), fails("PM_ERR_NOPROFILE")},
		{"a fetch of too many", fetch(101), fails("PM_ERR_TOOBIG")},
		{"a fetch beyond the size limit", fetch(20000), closed},
		{"descs with a wrong word", word(24, 0x7016, 0, 0, 1, 1), fails("PM_ERR_IPC")},
		{"names that lie", word(24, 0x700e, 0, 1, 0, 1<<28), fails("PM_ERR_IPC")},
		{"a store that lies", word(24, 0x7001, 0, 0, 0, 1<<28), fails("PM_ERR_IPC")},
	}
	r := newHarness(t, func(c *Config) {
		c.RequestTimeout = 300 * time.Millisecond
		c.MaxMetrics = 100
	}, nil)
	other := r.dial()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := r.dial()
			c.t = t
			c.Conn.Write(tt.bytes) // the end may come in the middle of it
			other.t = t
			usable(other)
			tt.then(c)
			usable(other)
			c.Conn.Close()
		})
	}
	t.Run("a request before CREDS", func(t *testing.T) {
		c := r.connect("tcp", r.tcp)
		c.t = t
		c.recv()
		c.sendBytes(desc)
		c.closed()
	})
	t.Run("gone in the middle of a reply", func(t *testing.T) {
		for range 20 {
			c := r.dial()
			c.send(&pdu.PMNSTraverse{}, &pdu.PMNSTraverse{}, &pdu.PMNSTraverse{})
			c.Conn.(*net.TCPConn).SetLinger(0)
			c.Conn.Close()
		}
		other.t = t
		usable(other)
	})
	testutil.Eventually(t, "all but one gone", func() bool { return r.sessions.NumClients() == 1 })
	r.awaitLogged(t, "in the middle of a PDU")
	r.awaitLogged(t, "exceeds maximum client PDU size")
}

// A client may take its time over a PDU as long as that comes in time, and
// may send several at once, in pieces of any size.
func TestPieces(t *testing.T) {
	r := newHarness(t, nil, nil)
	c := r.dial()
	var b []byte
	for range 5 {
		b, _ = pdu.Append(b, 0, &pdu.Profile{})
		b, _ = pdu.Append(b, 0, &pdu.Fetch{PMIDs: []pdu.PMID{id(240, 1)}})
	}
	for _, size := range []int{1, 7, len(b)} {
		for rest := b; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			c.sendBytes(rest[:min(size, len(rest))])
		}
		for range 5 {
			if got := show(c.recv()); got != "240.0.1=240" {
				t.Errorf("pieces of %d: %s", size, got)
			}
		}
	}
}

// With rules for users, a client that is not known may do nothing, from the
// first PDU on.
func TestCredentialsRequired(t *testing.T) {
	r := newHarness(t, nil, nil)
	r.awaitStarts()
	r.write("pmcd.conf", "pmcd 2 dso pmcd_init /none\nu 241 pipe binary u\n[access]\nallow users root : all;\n")
	r.Reload()
	testutil.Eventually(t, "reloaded", func() bool { return r.Reloads().Count == 1 })
	c := r.connect("tcp", r.tcp)
	if g := c.recv().(*pdu.Error); g.Info&uint32(pdu.FeatureCredsReqd) == 0 {
		t.Errorf("greeting %#x", g.Info)
	}
	c.send(pdutest.Creds(0), &pdu.Profile{}, &pdu.DescReq{PMID: id(241, 1)}, &pdu.Result{})
	for range 4 {
		if got := show(c.recv()); got != "PM_ERR_PERMISSION" {
			t.Errorf("got %s", got)
		}
	}
	// A failed exchange gives no rights.
	c = r.dialTo("tcp", r.tcp, pdu.FeatureSecure)
	if got := show(c.recv()); got != "PM_ERR_NOTCONN" {
		t.Errorf("TLS: %s", got)
	}
	if got := show(c.do(&pdu.DescReq{PMID: id(241, 1)})); got != "PM_ERR_PERMISSION" {
		t.Errorf("then: %s", got)
	}
}

// A reload takes the agent away while a request for it is on its way.
func TestUnconfiguredMeanwhile(t *testing.T) {
	var r *harness
	there := make(chan struct{})
	r = newHarness(t, nil, map[int]func(wire.Conn){240: script(240, pdu.TypePMNSNames, func(c wire.Conn, _ []byte) {
		<-there
		all := r.routes.Load()
		r.routes.Store(all.WithAgents(slices.DeleteFunc(slices.Clone(all.Agents()), func(a *agentset.Agent) bool { return a.Domain == 240 })))
		c.Write(errorPDU(pdu.ErrnoNotReady))
		hold(c)
	})})
	r.awaitStarts()
	defer r.routes.Store(r.routes.Load()) // the end of the Daemon stops all agents
	close(there)
	c := r.dial()
	if got := show(c.do(&pdu.PMNSNames{Names: []string{"d.x"}})); got != "PM_ERR_AGAIN" {
		t.Errorf("got %s, want PM_ERR_AGAIN", got)
	}
	if got := show(c.do(&pdu.PMNSNames{Names: []string{"d.x"}})); got != "PM_ERR_NOAGENT" {
		t.Errorf("then: got %s, want PM_ERR_NOAGENT", got)
	}
}

// A fetch of the metric with the most instances, thousands of times over, is
// refused before it takes the memory.
func TestHugeFetch(t *testing.T) {
	r := newHarness(t, nil, nil)
	var clients []*client
	for range 20 {
		c := r.dial()
		clients = append(clients, c)
		whoami := pdu.Value{Inst: -1, Type: pdu.MetricString, Block: append(make([]byte, 4000), 0)}
		for i := range whoami.Block[:4000] {
			whoami.Block[i] = 'x'
		}
		store := &pdu.Result{Sets: []pdu.ValueSet{{PMID: pdu.NewPMID(2, 6, 0), Format: pdu.FormatBlock, Values: []pdu.Value{whoami}}}}
		if got := show(c.do(store)); got != "0" {
			t.Fatalf("store: %s", got)
		}
	}
	ids := make([]pdu.PMID, 16000)
	for i := range ids {
		ids[i] = pdu.NewPMID(2, 6, 0)
	}
	c := clients[0]
	c.send(&pdu.Profile{})
	if sets, code := c.fetch(ids...); len(sets) > 0 || code != pdu.ErrnoTooBig {
		t.Errorf("%d sets, %v; want %v", len(sets), code, pdu.ErrnoTooBig)
	}
}
