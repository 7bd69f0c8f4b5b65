package clients

import (
	"log/slog"
	"testing"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// Agents get attributes when they change, and nothing after the end of the client.
func TestKnownAttrs(t *testing.T) {
	attr := func(value string) []pdu.Attr { return []pdu.Attr{{Code: pdu.AttrContainer, Value: []byte(value)}} }
	name := pdu.Attr{Code: pdu.AttrUserName, Value: []byte("a")}
	var a knownAttrs
	for i, step := range []struct {
		attrs         []pdu.Attr
		changed, lost bool
	}{
		{nil, false, false}, {attr("a"), true, false}, {attr("a"), false, false}, {attr("b"), true, false},
		{append(attr("b"), attr("c")...), true, false}, {nil, true, true}, {attr(""), true, false}, {attr(""), false, false},
		{append(attr(""), name), true, false}, {[]pdu.Attr{name}, true, true}, {attr(""), true, true},
	} {
		if changed, lost := a.replace(step.attrs); changed != step.changed || lost != step.lost {
			t.Errorf("step %d: changed is %t, lost is %t", i, changed, lost)
		}
	}
	if !a.close() || !a.closed {
		t.Error("the client has disconnected: not closed, or no agent has got anything")
	}
	if new(knownAttrs).close() {
		t.Error("agents have got something of a client without attributes")
	}
}

// A transport that has got a notice of a client reports whether known was locked meanwhile.
type lockedTransport struct {
	transport.Transport
	known  *knownAttrs
	locked bool
}

func (*lockedTransport) WantsAttrs() bool { return true }

func (l *lockedTransport) Notify(transport.Notice) {
	if l.locked = !l.known.mu.TryLock(); !l.locked {
		l.known.mu.Unlock()
	}
}

// The notice of the client's end waits for one of its attributes that is being sent: otherwise
// the agent would get the attributes last, and keep them for the next client with this number.
func TestAttrsAreSentBeforeTheEnd(t *testing.T) {
	var a knownAttrs
	a.replace([]pdu.Attr{{Code: pdu.AttrContainer, Value: []byte("a")}})
	l := &lockedTransport{known: &a}
	a.sendTo(&agentset.Conn{Conn: &transport.Conn{Transport: l}}, 1, false)
	if !l.locked {
		t.Error("the client can end while its attributes are sent")
	}
}

// A domainSet has what was added, also at its ends.
func TestDomainSet(t *testing.T) {
	var d domainSet
	in := map[int]bool{0: true, 63: true, 64: true, 511: true}
	for domain := range in {
		d.Add(domain)
	}
	for domain := range 512 {
		if d.has(domain) != in[domain] {
			t.Errorf("%d: %v", domain, d.has(domain))
		}
	}
}

// Routes that a reload stores while a client changes or ends are those that its notice uses: an agent
// in them may have been sent what the client was before.
func TestNoticesUseNewRoutes(t *testing.T) {
	var c Client
	stored := func() *routes.Table {
		if !c.known.closed && len(c.known.attrs) == 0 {
			t.Error("the routes are loaded before the change")
		}
		return routes.New(nil, nil)
	}
	c.Conn, c.Container.Chosen = peerless{}, true
	c.SendAttrs(stored, diag.NewDebug("", slog.New(slog.DiscardHandler)))
	c.known.attrs = nil
	c.SendEnd(stored)
}

// peerless is a connection whose peer is not known.
type peerless struct{ conn.Handle }

func (peerless) Peer() conn.Peer { return conn.Peer{} }
