package session

import (
	"github.com/gopcp/pmcd/daemon/internal/calls"
	"github.com/gopcp/pmcd/pdu"
)

// store answers RESULT from a client: each agent gets its value sets, and the
// client one code for all. Neither a fence nor a profile matters to a store.
func store(c *calls.Caller, b []byte) (code pdu.Errno) {
	var m pdu.Result
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return pdu.ErrnoIPC
	}
	defer c.Reset()
	for _, vs := range m.Sets {
		p := c.Sub(vs.PMID.Domain())
		p.Store = append(p.Store, vs)
	}
	call := c.NewCall(0, nil, nil)
	call.Coroutine = nil // the agent pmcd changes what belongs to this goroutine (SetContainer)
	call.Batched = len(c.Subs) > 1
	for i := range c.Subs {
		p := &c.Subs[i]
		err := error(pdu.ErrnoNoAgent)
		if !p.Absent {
			if p.Req, err = pdu.Append(p.Req[:0], 0, &pdu.Result{Sets: p.Store}); err == nil {
				err = c.SendSub(p, p.Store[0].PMID.Domain(), &call, true)
			}
		}
		p.Err = calls.Errno(err)
	}
	for i := range c.Subs {
		p := &c.Subs[i]
		if p.Err == 0 {
			p.Err = calls.Errno(c.ReceiveSub(p, nil))
		}
		if weight(p.Err) >= weight(code) {
			code = p.Err
		}
	}
	return code
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
