package calls

import (
	"time"

	"github.com/gopcp/pmcd/pdu"
)

const (
	// MaxBatchTime is for how long an agent may work on a batch, estimated from the batch
	// before. Then other clients have their turns.
	MaxBatchTime = 4 * time.Millisecond

	// How many items of a series an agent is asked for in one Call, at most, and how many
	// bytes their requests may have, so that other requests can be in flight with them.
	maxSeriesItems = 128
	maxSeriesBytes = 4 << 10
)

// A Series is a request for items, such as metrics, for each of which an agent gets a PDU.
type Series interface {
	// Append appends the PDU for item i.
	Append(b []byte, i int32) ([]byte, error)

	// Answered is called with the reply to item i, which is no ERROR PDU. An error says that
	// the agent violates the protocol.
	Answered(i int32, b []byte) error

	// Failed is called if there is no reply to item i, or an ERROR PDU. Asked says that the
	// agent itself has answered err.
	Failed(i int32, err error, asked bool)
}

// A seriesRun is the part of a series that is for one agent.
type seriesRun struct {
	*Sub
	domain int
	rest   []int32 // indexes of the items that are not done; none after a failure
	batch  int     // how many to ask for in the next Call
}

// AskSeries asks the agents of domains[i] for item i of s. Unknown is the error for a domain
// without an agent.
//
// All that an agent is asked for at a time is one Call, a batch: a busy agent serves
// other clients between two batches. The first Call is for one item, and shows how long the
// agent takes. After a Call without an answer the agent is not asked for the rest, so a
// request waits for one timeout of each agent at most.
func (c *Caller) AskSeries(s Series, domains []int, unknown pdu.Errno) {
	defer c.Reset()
	var runs []seriesRun
	for i, domain := range domains {
		p := c.Sub(domain)
		if len(c.Subs) > len(runs) {
			runs = append(runs, seriesRun{domain: domain, batch: 1})
		}
		if p.Absent {
			s.Failed(int32(i), unknown, false)
			continue
		}
		d := &runs[c.subOf[domain]-1]
		d.rest = append(d.rest, int32(i))
	}
	for i := range runs {
		runs[i].Sub = &c.Subs[i]
	}
	sent := make([]error, len(runs))
	for more := true; more; {
		for i := range runs {
			if d := &runs[i]; len(d.rest) > 0 {
				sent[i] = c.sendSeries(s, d, unknown, len(runs) > 1)
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
				err = c.receiveSeries(s, d)
			}
			if err != nil {
				for _, i := range d.rest {
					s.Failed(i, err, false)
				}
				d.rest = nil
			}
			more = more || len(d.rest) > 0
		}
	}
}

// sendSeries asks the agent of d for the next items.
func (c *Caller) sendSeries(s Series, d *seriesRun, unknown pdu.Errno, batched bool) (err error) {
	if c.Routes.Agent(d.domain) == nil {
		return unknown
	}
	d.Req = d.Req[:0]
	n := 0
	for ; n < min(d.batch, len(d.rest)) && (n == 0 || len(d.Req) < maxSeriesBytes); n++ {
		before := len(d.Req)
		if d.Req, err = s.Append(d.Req, d.rest[n]); err != nil {
			return err
		}
		if n > 0 && len(d.Req) > maxSeriesBytes {
			d.Req = d.Req[:before]
			break
		}
	}
	d.batch = n
	call := c.NewCall(0, nil, nil)
	call.Batched = batched
	return c.SendSub(d.Sub, d.domain, &call, false)
}

// receiveSeries waits for the answers to what sendSeries has sent.
func (c *Caller) receiveSeries(s Series, d *seriesRun) (err error) {
	defer d.Conn.Release()
	if d.Reply, err = c.recv(d.Agent, d.Conn, &d.Call, d.sent, d.Reply[:0]); err != nil {
		return err
	}
	rest := d.Reply
	for range d.batch {
		n, t, _ := pdu.Header(rest)
		one, i := rest[:n], d.rest[0]
		rest = rest[n:]
		if t == pdu.TypeError {
			s.Failed(i, c.errorReply(d.Agent, d.Conn, &d.Call, one), true)
		} else if err = s.Answered(i, one); err != nil {
			return d.Conn.ProtocolError(err)
		}
		d.rest = d.rest[1:]
	}
	took := d.Call.Done.Sub(d.Call.Began) / time.Duration(d.batch)
	d.batch = max(1, min(maxSeriesItems, int(MaxBatchTime/max(took, 1))))
	return nil
}
