package session

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
)

// store answers RESULT from a client: each agent gets its value sets, and the
// client one code for all. Neither a fence nor a profile matters to a store.
func (r request) store(b []byte) error {
	var m pdu.Result
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return r.fail(pdu.ErrnoIPC)
	}
	defer r.reset()
	for _, vs := range m.Sets {
		p := r.sub(vs.PMID.Domain())
		p.store = append(p.store, vs)
	}
	for i := range r.subs {
		p := &r.subs[i]
		p.err = errnoOf(r.sendStore(p))
	}
	var code pdu.Errno
	for i := range r.subs {
		p := &r.subs[i]
		if p.err == 0 {
			p.err = errnoOf(r.receive(p.agent, p.conn, &p.call, p.sent, &p.reply))
			p.conn.Release()
		}
		if weight(p.err) >= weight(code) {
			code = p.err
		}
	}
	return r.fail(code)
}

// sendStore sends the part of a store that is for one agent.
func (r request) sendStore(p *subrequest) (err error) {
	if p.absent {
		return pdu.ErrnoNoAgent
	}
	if p.agent, p.conn = r.acquire(p.store[0].PMID.Domain()); p.conn == nil {
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
		Origin:  agents.Origin{Client: r.client.Num},
		Timeout: r.srv.cfg.RequestTimeout(),
		Req:     p.req,
		Key:     &r.client.Key,
		Waiter:  waiter{r.requestScratch},
		Batched: len(r.subs) > 1,
	}
	if p.sent, err = p.conn.Send(&p.call); err != nil {
		defer r.cpu.TakeAgain()
		return r.failed(p.conn, &p.call, true, err)
	}
	return nil
}

// weight orders the codes of several agents. A client gets the code with the largest weight;
// of several, the last one.
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
