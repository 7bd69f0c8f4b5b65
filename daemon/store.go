package daemon

import (
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
)

// store answers RESULT from a client: each agent gets its value sets, and the
// client one code for all. Neither a fence nor a profile matters to a store.
func (s *session) store(w *work, b []byte) error {
	var m pdu.Result
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return s.fail(w, pdu.ErrnoIPC)
	}
	defer w.reset()
	for _, vs := range m.Sets {
		p := w.part(vs.PMID.Domain())
		p.store = append(p.store, vs)
	}
	for i := range w.parts {
		p := &w.parts[i]
		p.err = errnoOf(s.sendStore(w, p))
	}
	var code pdu.Errno
	for i := range w.parts {
		p := &w.parts[i]
		if p.err == 0 {
			p.err = errnoOf(s.receive(p.agent, p.conn, &p.call, p.sent, &p.reply))
			p.conn.Release()
		}
		if weight(p.err) >= weight(code) {
			code = p.err
		}
	}
	return s.fail(w, code)
}

// sendStore sends the part of a store that is for one agent.
func (s *session) sendStore(w *work, p *part) (err error) {
	if p.agent, p.conn = s.acquire(w, p.store[0].PMID.Domain()); p.conn == nil {
		return pdu.ErrnoNoAgent
	}
	defer func() {
		if err != nil {
			p.conn.Release()
		}
	}()
	if p.req, err = pdu.Append(p.req[:0], 0, &pdu.Result{Sets: p.store}); err != nil {
		return err
	}
	p.call = transport.Call{
		Origin:  agents.Origin{Client: s.num},
		Timeout: time.Duration(s.d.timeout.Load()),
		Req:     p.req,
		Batched: len(w.parts) > 1,
	}
	if p.sent, err = p.conn.Send(&p.call); err != nil {
		s.d.trace.Failure(true, p.conn.Out, p.req, err, errnoOf(err))
		return p.conn.TransportError(err)
	}
	return nil
}

// weight orders the codes of several agents: a client gets the gravest, and
// the last of those.
func weight(code pdu.Errno) int {
	switch {
	case code == 0:
		return 0
	case code == pdu.ErrnoAgain:
		return 2
	case code == pdu.ErrnoNoAgent:
		return 3
	case code == pdu.ErrnoIPC, code == pdu.ErrnoTimeout:
		return 4
	}
	return 1
}
