package daemon

import (
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/wire"
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

// shortRequests returns a change of the Config for a test. If the test waits for a request
// to time out, requests may take a second, else as long as newHarness says.
func shortRequests(timesOut bool) func(*Config) {
	return func(c *Config) {
		if timesOut {
			c.Agents.RequestTimeout = time.Second
		}
	}
}

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
				r := newHarness(t, shortRequests(tt.name == "never answers"),
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
			r := newHarness(t, shortRequests(tt.name == "desc: never"),
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
		"talks nonsense":       func(c wire.Conn) { c.Write([]byte("hello world, this is no PDU")) },
		"sends another PDU":    hello(errorPDU(0)),
		"has no version":       hello(word(20, 0x700c, 0, 1, 1<<24)),
		"dies after its creds": func(c wire.Conn) { c.Write(word(20, 0x700c, 0, 1, 0x01020000)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newHarness(t, func(c *Config) {
				if name == "stalls" {
					c.Agents.HandshakeTimeout = 2 * time.Second
				}
			}, map[int]func(wire.Conn){240: play})
			c := r.dial()
			c.send(&pdu.Profile{})
			testutil.Eventually(t, "no agent", func() bool {
				sets, _ := c.fetch(id(240, 1), id(241, 1))
				return showSets(sets) == "240.0.1=PM_ERR_NOAGENT 241.0.1=241"
			})
			r.awaitLogged(t, "\"t\" agent (dom 240)")
			for _, raw := range []string{"deadline", "EOF", "i/o timeout", "closed network"} {
				if r.logged(raw) || strings.Contains(r.Status().Agents[1].LastError, raw) {
					t.Errorf("%q shows details of Go", raw)
				}
			}
			if name == "stalls" && !strings.HasSuffix(r.Status().Agents[1].LastError, ": no answer in 2 s (-q)") {
				t.Errorf("the reason is %q", r.Status().Agents[1].LastError)
			}
			if got := show(c.do(&pdu.DescReq{PMID: id(240, 1)})); got != "PM_ERR_NOAGENT" {
				t.Errorf("desc: %s", got)
			}
			if m := c.do(&pdu.PMNSTraverse{}).(*pdu.PMNSNames); !slices.Contains(m.Names, "d") {
				t.Errorf("traverse: %q", m.Names)
			}
			r.play(240, serveAgent(&agentsettest.Tester{Domain: 240}))
			r.Reload()
			testutil.Eventually(t, "restarted", func() bool {
				sets, _ := c.fetch(id(240, 1))
				return showSets(sets) == "240.0.1=240"
			})
		})
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
