package session

import (
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
)

const (
	// seriesSlice is for how long an agent may work on a series before it is the turn of
	// another client, as far as can be told from the last turn.
	seriesSlice = 4 * time.Millisecond

	// How many items of a series an agent is asked for in one turn, at most, and how many
	// bytes their requests may have, so that other requests can be in flight with them.
	maxSeriesItems = 128
	maxSeriesBytes = 4 << 10
)

// A series is a request for items, such as metrics, for each of which an agent gets a PDU.
type series interface {
	// append appends the PDU for item i.
	append(b []byte, i int32) ([]byte, error)

	// answered is called with the reply to item i, which is no ERROR PDU. An error says that
	// the agent violates the protocol.
	answered(i int32, b []byte) error

	// failed is called if there is no reply to item i, or an ERROR PDU. Asked says that the
	// agent itself has answered err.
	failed(i int32, err error, asked bool)
}

// A seriesRun is the part of a series that is for one agent.
type seriesRun struct {
	*subrequest
	domain int
	rest   []int32 // indexes of the items that are not done; none after a failure
	turn   int     // how many to ask for in the next turn
}

// askSeries asks the agents of domains[i] for item i of s. Unknown is the error for a domain
// without an agent.
//
// All that an agent is asked for at a time is one Call, because a busy agent has turns of
// other clients between two Calls. The first Call is for one item, and tells how long the
// agent takes. After a Call without an answer the agent is not asked for the rest, so a
// request waits for one timeout of each agent at most.
func (r request) askSeries(s series, domains []int, unknown pdu.Errno) {
	defer r.reset()
	var runs []seriesRun
	for i, domain := range domains {
		p := r.sub(domain)
		if len(r.subs) > len(runs) {
			runs = append(runs, seriesRun{domain: domain, turn: 1})
		}
		if p.absent {
			s.failed(int32(i), unknown, false)
			continue
		}
		d := &runs[r.subOf[domain]-1]
		d.rest = append(d.rest, int32(i))
	}
	for i := range runs {
		runs[i].subrequest = &r.subs[i]
	}
	sent := make([]error, len(runs))
	for more := true; more; {
		for i := range runs {
			if d := &runs[i]; len(d.rest) > 0 {
				sent[i] = r.sendSeries(s, d, unknown, len(runs) > 1)
			}
		}
		more = false
		for i := range runs {
			d := &runs[i]
			if len(d.rest) == 0 {
				continue
			}
			err := sent[i]
			if err == nil {
				err = r.receiveSeries(s, d)
			}
			if err != nil {
				for _, i := range d.rest {
					s.failed(i, err, false)
				}
				d.rest = nil
			}
			more = more || len(d.rest) > 0
		}
	}
}

// sendSeries asks the agent of d for the items of its next turn.
func (r request) sendSeries(s series, d *seriesRun, unknown pdu.Errno, batched bool) (err error) {
	if r.routes.Agent(d.domain) == nil {
		return unknown
	}
	d.req = d.req[:0]
	n := 0
	for ; n < min(d.turn, len(d.rest)) && (n == 0 || len(d.req) < maxSeriesBytes); n++ {
		before := len(d.req)
		if d.req, err = s.append(d.req, d.rest[n]); err != nil {
			return err
		}
		if n > 0 && len(d.req) > maxSeriesBytes {
			d.req = d.req[:before]
			break
		}
	}
	d.turn = n
	return r.sendSub(d.subrequest, d.domain, &transport.Call{
		Origin:  agents.Origin{Client: r.client.Num},
		Timeout: r.srv.cfg.RequestTimeout(),
		Batched: batched,
	})
}

// receiveSeries waits for the answers to what sendSeries has sent.
func (r request) receiveSeries(s series, d *seriesRun) (err error) {
	defer d.conn.Release()
	if d.reply, err = r.recv(d.agent, d.conn, &d.call, d.sent, d.reply[:0]); err != nil {
		return err
	}
	rest := d.reply
	for range d.turn {
		n, t, _ := pdu.Header(rest)
		one, i := rest[:n], d.rest[0]
		rest = rest[n:]
		if t == pdu.TypeError {
			s.failed(i, r.errorReply(d.agent, d.conn, &d.call, one), true)
		} else if err = s.answered(i, one); err != nil {
			return d.conn.ProtocolError(err)
		}
		d.rest = d.rest[1:]
	}
	took := d.call.Done.Sub(d.call.Began) / time.Duration(d.turn)
	d.turn = max(1, min(maxSeriesItems, int(seriesSlice/max(took, 1))))
	return nil
}
