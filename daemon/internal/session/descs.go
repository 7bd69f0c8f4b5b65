package session

import (
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
)

const (
	// descSlice is for how long an agent may work on descriptors for one request before
	// it is the turn of another client, as far as can be told from the last turn.
	descSlice = 4 * time.Millisecond

	// maxDescs is how many descriptors an agent is asked for in one turn, at most.
	maxDescs = 128
)

// descs answers DESC_IDS. Among several metrics, one without a descriptor has an empty
// descriptor. Alone, it is an error.
func (r request) descs(b []byte) error {
	var m pdu.DescIDs
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return r.fail(pdu.ErrnoIPC)
	}
	ids, repeated := r.distinct.reduce(m.PMIDs, r.srv.hashSeed)
	descs := make([]pdu.Desc, len(ids))
	for i := range descs {
		descs[i].PMID = pdu.NoPMID
	}
	if code := r.askDescs(ids, descs); code != 0 && len(m.PMIDs) == 1 {
		return r.fail(code)
	}
	if repeated {
		different := descs
		descs = make([]pdu.Desc, len(m.PMIDs))
		for i, k := range r.distinct.order {
			descs[i] = different[k]
		}
	}
	return r.reply(&pdu.Descs{Descs: descs})
}

// A descRun is the part of a DESC_IDS that is for one agent.
type descRun struct {
	*subrequest
	rest []int32 // indexes of the PMIDs that are not done; none after a failure
	turn int     // how many to ask for in the next turn
}

// askDescs sets the descriptors of ids, as far as agents have them. It returns the last
// error.
//
// All that an agent is asked for at a time is one Call, because a busy agent has turns of
// other clients between two Calls. The first Call is for one descriptor, and tells how long
// the agent takes. After a Call without an answer the agent is not asked for the rest, so
// a request waits for one timeout of each agent at most.
func (r request) askDescs(ids []pdu.PMID, descs []pdu.Desc) (last pdu.Errno) {
	defer r.reset()
	var runs []descRun
	for i, id := range ids {
		if r.sub(id.Domain()); len(r.subs) > len(runs) {
			runs = append(runs, descRun{turn: 1})
		}
		d := &runs[r.subOf[id.Domain()]-1]
		d.rest = append(d.rest, int32(i))
	}
	for i := range runs {
		runs[i].subrequest = &r.subs[i]
	}
	for more := true; more; {
		for i := range runs {
			if d := &runs[i]; len(d.rest) > 0 {
				d.err = errnoOf(r.sendDescs(d, ids, len(runs) > 1))
			}
		}
		more = false
		for i := range runs {
			d := &runs[i]
			if len(d.rest) == 0 {
				continue
			}
			if d.err == 0 {
				d.err = errnoOf(r.receiveDescs(d, descs))
			}
			if d.err != 0 {
				last, d.rest = d.err, nil
			}
			more = more || len(d.rest) > 0
		}
	}
	return last
}

// sendDescs asks the agent of d for the descriptors of its next turn.
func (r request) sendDescs(d *descRun, ids []pdu.PMID, batched bool) (err error) {
	domain := ids[d.rest[0]].Domain()
	if r.routes.Agent(domain) == nil {
		return pdu.ErrnoPMID
	}
	d.turn = min(d.turn, len(d.rest))
	d.req = d.req[:0]
	for _, i := range d.rest[:d.turn] {
		if d.req, err = pdu.Append(d.req, 0, &pdu.DescReq{PMID: ids[i]}); err != nil {
			return err
		}
	}
	return r.sendSub(d.subrequest, domain, &transport.Call{
		Origin:  agents.Origin{Client: r.id.num},
		Timeout: r.srv.cfg.RequestTimeout(),
		Batched: batched,
	})
}

// receiveDescs waits for the answers to what sendDescs has sent. An ERROR PDU is an error
// only if there is no other metric in the request.
func (r request) receiveDescs(d *descRun, descs []pdu.Desc) (err error) {
	defer d.conn.Release()
	if d.reply, err = r.recv(d.agent, d.conn, &d.call, d.sent, d.reply[:0]); err != nil {
		return err
	}
	rest := d.reply
	for _, i := range d.rest[:d.turn] {
		n, t, _ := pdu.Header(rest)
		one := rest[:n]
		rest = rest[n:]
		if t == pdu.TypeError {
			if err = r.errorReply(d.agent, d.conn, &d.call, one); len(descs) == 1 {
				return err
			}
			continue
		}
		// If it cannot be decoded here, a client cannot decode it either.
		if _, err = pdu.ParseInto(one, &descs[i]); err != nil {
			descs[i] = pdu.Desc{PMID: pdu.NoPMID}
			return d.conn.ProtocolError(err)
		}
	}
	took := d.call.Done.Sub(d.call.Began) / time.Duration(d.turn)
	d.rest = d.rest[d.turn:]
	d.turn = max(1, min(maxDescs, int(descSlice/max(took, 1))))
	return nil
}
