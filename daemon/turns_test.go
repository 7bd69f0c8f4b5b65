package daemon

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
	"github.com/gopcp/pmcd/pmcdconf"
)

// Each request of a client waits for its turn at an agent, of the clients of its group: few of
// another group precede it, however many that has sent before. A connection of a relay is a
// group.
func TestTurnsOfRequests(t *testing.T) {
	const many = 10
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	desc := &pdu.DescReq{PMID: id(240, 1)}
	store := func(ids ...pdu.PMID) *pdu.Result {
		var m pdu.Result
		for _, id := range ids {
			m.Sets = append(m.Sets, pdu.ValueSet{PMID: id, Values: []pdu.Value{{Inst: -1, Word: 1}}})
		}
		return &m
	}
	for _, tt := range []struct {
		name   string
		req    pdu.Message
		relays []netip.Prefix
		unix   bool // the many are at the Unix socket, and the others at the port
		others int
		want   int
	}{
		{"a host beside a user", desc, nil, false, 1, 1},
		{"a user beside two clients of a host", desc, nil, true, 2, 2},
		{"a user beside two clients of a relay", desc, loopback, true, 2, 1},
		{"clients of a relay beside a user", desc, loopback, false, 1, many - 1},
		{"fetch", &pdu.Fetch{PMIDs: []pdu.PMID{id(240, 1)}}, nil, true, 1, 1},
		{"fetch from two agents", &pdu.Fetch{PMIDs: []pdu.PMID{id(240, 1), id(241, 1)}}, nil, true, 1, 1},
		{"store", store(id(240, 1)), nil, true, 1, 1},
		{"store to two agents", store(id(240, 1), id(241, 1)), nil, true, 1, 1},
		{"text", &pdu.TextReq{Ident: uint32(id(240, 1)), Kind: pdu.TextPMID | pdu.TextHelp}, nil, true, 1, 1},
		{"descriptors", &pdu.DescIDs{PMIDs: []pdu.PMID{id(240, 1)}}, nil, true, 1, 1},
		{"names", &pdu.PMNSTraverse{}, nil, true, 1, 1},
		{"names of one agent", &pdu.PMNSTraverse{Name: "d"}, nil, true, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := requestsBefore(t, tt.relays, tt.unix, many, tt.others, tt.req); got != tt.want {
				t.Errorf("%d requests preceded the last of the others, want %d", got, tt.want)
			}
		})
	}
}

// requestsBefore has many clients send a request to an agent, and then others. The first
// are at the Unix socket if unix is set, otherwise at the port; the others are not. It
// returns how many requests of the first preceded the last one of the others, besides the
// one that the agent had already.
func requestsBefore(t *testing.T, relays []netip.Prefix, unix bool, many, others int, req pdu.Message) (n int) {
	t.Helper()
	asked, step := make(chan int32), make(chan struct{})
	r := newHarness(t, func(c *Config) {
		c.Limits.Relays, c.Agents.RequestTimeout = relays, time.Minute
		open := c.Agents.Open
		c.Agents.Open = func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
			opt.Depth = 1
			return open(ctx, spec, opt)
		}
	}, map[int]func(wire.Conn){240: stepByStep(asked, step)})
	r.awaitStarts()
	agent := r.routes.Load().Agent(240).Conn().Transport.(*wire.Client)
	var clients []*client
	send := func(n int, unix bool) {
		t.Helper()
		network, addr := "tcp", r.tcp
		if unix {
			network, addr = "unix", r.unix
		}
		for range n {
			c := r.dialTo(network, addr, 0)
			c.send(&pdu.Profile{}, req)
			clients = append(clients, c)
		}
		testutil.Eventually(t, "they wait for their turn", func() bool { return agent.Waiting() == len(clients)-1 })
	}
	send(many, unix)
	send(others, !unix)
	before := -1 // the agent has the first
	for range clients {
		if client := <-asked; client < int32(many) { // numbers are in the order of connections
			before++
		} else {
			n = before
		}
		step <- struct{}{}
	}
	for _, c := range clients {
		c.recv()
	}
	return n
}

// stepByStep plays an agent that sends to asked whose request it has, and replies with an
// error when it receives from step.
func stepByStep(asked chan<- int32, step <-chan struct{}) func(wire.Conn) {
	return func(c wire.Conn) {
		hello, _ := pdu.Append(nil, 1, pdutest.Creds(0))
		c.Write(hello)
		refusal, _ := pdu.Append(nil, 0, &pdu.Error{Code: pdu.ErrnoPMID})
		r := pdu.NewReader(c, 0)
		for {
			b, err := r.Next()
			if err != nil {
				return
			}
			switch _, t, client := pdu.Header(b); t {
			case pdu.TypeCreds, pdu.TypeProfile, pdu.TypeError:
			default:
				asked <- client
				<-step
				c.Write(refusal)
			}
		}
	}
}
