package session

import (
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// answers reports whether requests go to the agent of a domain.
func (t *subtrees) answers(domain int) bool {
	a := t.routes().Agent(domain)
	return a != nil && a.TakesRequests()
}

// check looks for subtrees that are back, if that is due. Each fetch calls it.
func (t *subtrees) check(now time.Time) {
	if next := t.next.Load(); next == 0 || now.UnixNano() < next {
		return
	}
	for _, key := range t.due(now) {
		switch up := t.answers(key.domain); {
		case !up:
			t.again(key, false)
		case key.root == "": // the client has asked between namesBack and the first answer
			t.namesBack(key.domain)
		default:
			t.probes.Go(func() { t.probe(key) })
		}
	}
}

// probe asks for a subtree on behalf of no client. If there is an answer, the clients
// that miss the subtree are told.
func (t *subtrees) probe(key subtree) {
	r := t.routes()
	e, a := r.Tree().Find(key.root), r.Agent(key.domain)
	switch {
	case e.Kind != pmnsload.Dynamic, e.Name != key.root, e.Domain != key.domain:
		t.mu.Lock() // the name space is another one
		defer t.mu.Unlock()
		t.back(key)
	case a == nil || failedNames(t.askNames(a, key.root)):
		t.again(key, true)
	default:
		t.answered(nil, key)
	}
}

// askNames asks an agent for the names of a dynamic root and returns why there is
// no answer.
func (t *subtrees) askNames(a *agentset.Agent, root string) error {
	c := a.Conn()
	if c == nil || !c.Acquire() {
		return pdu.ErrnoNoAgent
	}
	defer c.Release()
	const noClient = -1 // no client has this number
	call := transport.Call{Origin: agents.Origin{Client: noClient}, Timeout: t.timeout()}
	var err error
	if call.Req, err = pdu.Append(nil, 0, &pdu.PMNSTraverse{Name: root}); err != nil {
		return err
	}
	b, err := transport.Do(c, &call, nil)
	if err != nil {
		return c.TransportError(err)
	}
	_, m, err := pdu.Parse(b)
	if err != nil {
		return c.ProtocolError(err)
	}
	switch m := m.(type) {
	case *pdu.PMNSNames:
		if m.Err != 0 {
			return m.Err
		}
		return nil
	case *pdu.Error:
		if m.Code < 0 {
			return m.Code
		}
	}
	return pdu.ErrnoGeneric
}
