package session

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/calls"
	"github.com/gopcp/pmcd/daemon/internal/repeated"
	"github.com/gopcp/pmcd/internal/relay"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// noticeLen is the room that fetch leaves before a reply, for the ERROR PDU that
// notifies the client of state changes.
const noticeLen = pdu.HeaderLen + 4

// highResExtra is how much longer the head of a HIGHRES_RESULT is than that
// of a RESULT.
const highResExtra = relay.SpareHighRes

// hostnameID is pmcd.hostname.
var hostnameID = pdu.NewPMID(2, 0, 21)

// A fetchRequest is a FETCH or a HIGHRES_FETCH.
type fetchRequest struct {
	*request
	high bool // HIGHRES_FETCH, which agents do not know
}

// reply returns the reply to b: out or, if it is long because metrics are repeated, long.
func (r fetchRequest) reply(b []byte) (out []byte, long *repeated.Reply, err error) {
	_, t, _ := pdu.Header(b)
	if r.high {
		binary.BigEndian.PutUint32(b[4:], uint32(pdu.TypeFetch)) // the rest is the same
	}
	m, c, srv := &r.fetch, &r.calls, r.s.srv
	if _, err := pdu.ParseInto(b, m); err != nil {
		return nil, nil, pdu.ErrnoIPC
	}
	if len(m.PMIDs) > srv.cfg.MaxMetrics {
		return nil, nil, pdu.ErrnoTooBig
	}
	profile := r.s.profile(m.Context)
	if profile == nil {
		srv.cfg.Limiter.Log(slog.LevelError, "no profile", "DoFetch: no profile for ctxnum={context}; client[{client}] {address}",
			"context", m.Context, "client", r.s.client.Num, "address", r.s.client.Addr)
		return nil, nil, pdu.ErrnoNoProfile
	}
	r.s.contexts.current = m.Context
	if r.s.client.Container.Chosen && slices.Contains(m.PMIDs, hostnameID) {
		r.s.wait(func() { r.s.client.Container.LookUpHost(srv.cfg.ContainerHost) })
	}
	call := c.NewCall(m.Context, profile, b)
	var repeats bool
	if m.PMIDs, repeats = r.distinct.reduce(m.PMIDs, srv.hashSeed); repeats {
		if c.Req, err = pdu.Append(c.Req[:0], 0, m); err != nil {
			return nil, nil, err
		}
		call.Req = c.Req
	}
	room := noticeLen
	if r.high {
		room += highResExtra
	}
	c.Out = append(c.Out[:0], make([]byte, noticeLen+highResExtra)...)[:room]

	if domain, n := domainRun(m.PMIDs); n == len(m.PMIDs) {
		err = r.fetchOne(&call, domain)
	} else {
		err = r.fetchSeveral(&call)
	}
	if err != nil {
		c.LogTooLong(t, nil, err)
		return nil, nil, err
	}
	out = c.Out[noticeLen:]
	now := time.Now()
	if r.high {
		relay.SetHighResTime(out, now.Unix(), int64(now.Nanosecond()))
	} else {
		relay.SetResultTime(out, int32(now.Unix()), int32(now.Nanosecond()/1000))
	}
	if repeats {
		// There is one value set for each metric. They are put in the order of the request.
		if err := r.repeated.Reset(out, r.distinct.order, srv.cfg.MaxReply); err != nil {
			c.LogTooLong(t, nil, err)
			return nil, nil, err
		}
	}
	if srv.cfg.Labels.HostnameDue(now) {
		srv.CheckHostname(now)
	}
	srv.Missing.Check(now)
	if bits := r.s.client.Notices.Swap(0); bits != 0 {
		appendError(c.Out[:0], pdu.Errno(bits))
		_, t, _ = pdu.Header(out)
		srv.cfg.Counts.Out(t) // write counts the ERROR
		out = c.Out
		if repeats {
			r.repeated.Prepend(c.Out[:noticeLen])
		}
	}
	switch {
	case !repeats:
		return out, nil, nil
	case r.repeated.Len() > maxJoined || srv.tracesPDUs():
		return nil, &r.repeated, nil
	}
	c.Ans = slices.Grow(c.Ans[:0], r.repeated.Len())
	c.Ans = r.repeated.Peek(c.Ans[:r.repeated.Len()])
	r.repeated.Free(calls.MaxNormal)
	return c.Ans, nil, nil
}

// domainRun reports how many of ids, of which there are some, are of one domain
// from the first on. Clients ask for the metrics of an agent one after the other.
func domainRun(ids []pdu.PMID) (domain, n int) {
	domain = ids[0].Domain()
	for n = 1; n < len(ids) && ids[n].Domain() == domain; n++ {
	}
	return domain, n
}

// fetchOne makes one agent's RESULT the reply, with another head. After noticeLen
// bytes r.calls.Out has the reply, without a time.
func (r fetchRequest) fetchOne(call *transport.Call, domain int) error {
	err := r.askOne(call, domain, len(r.calls.Out))
	switch {
	case err == nil && r.high:
		relay.ToHighRes(r.calls.Out[noticeLen:])
		return nil
	case err == nil:
		relay.SetFrom(r.calls.Out[noticeLen:], 0)
		return nil
	}
	code := calls.Errno(err)
	r.begin()
	for _, id := range r.fetch.PMIDs {
		r.calls.Result.Fail(id, code)
	}
	return r.finish()
}

// askOne puts the RESULT of the only agent of a fetch into r.calls.Out, after start bytes.
func (r fetchRequest) askOne(call *transport.Call, domain, start int) error {
	a, conn, err := r.calls.Available(domain, false)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := r.calls.AppendReply(a, conn, call, &r.calls.Out); err != nil {
		return err
	}
	b := r.calls.Out[start:]
	return r.checked(a, conn, b, relay.CheckResult(b, r.fetch.PMIDs))
}

// checked handles the outcome of a check of b, the RESULT of an agent. If err is nil,
// clients are notified of the state changes in b.
func (r fetchRequest) checked(a *agentset.Agent, c *agentset.Conn, b []byte, err error) error {
	if err != nil {
		return c.ProtocolError(fmt.Errorf("in its reply to FETCH: %w", err))
	}
	if flags := relay.StateFlags(b); flags != 0 {
		const allowed = pdu.StateLabelChange | pdu.StateNamesChange
		if flags&^allowed != 0 {
			r.s.srv.cfg.Limiter.Warn("flags "+a.Name(), "agent {agent:q} (dom {domain}) has reported state changes that only pmcd may report: bits {bits}; they are ignored",
				"agent", a.Name(), "domain", a.Domain, "bits", fmt.Sprintf("%#x", flags&^allowed))
		}
		r.s.srv.Notify(flags & allowed)
	}
	return nil
}

// fetchSeveral sends to several agents before it waits for any, and puts their value
// sets in the order that the client asked for. The slowest is first: the others do
// their work in its time.
func (r fetchRequest) fetchSeveral(call *transport.Call) error {
	defer r.calls.Reset()
	for rest := r.fetch.PMIDs; len(rest) > 0; {
		domain, n := domainRun(rest)
		f := &r.calls.Sub(domain).Fetch
		f.PMIDs = append(f.PMIDs, rest[:n]...)
		rest = rest[n:]
	}
	order := r.calls.SlowestFirst()
	call.Batched = true
	for _, p := range order {
		p.Fetch.Context = call.Origin.Context
		var err error
		p.Req, err = pdu.Append(p.Req[:0], 0, &p.Fetch)
		if p.Absent {
			err = pdu.ErrnoNoAgent
		} else if err == nil {
			err = r.calls.SendSub(p, p.Fetch.PMIDs[0].Domain(), call, false)
		}
		p.Err = calls.Errno(err)
	}
	for _, p := range order {
		if p.Err != 0 {
			continue
		}
		p.Err = calls.Errno(r.calls.ReceiveSub(p, func() error {
			return r.checked(p.Agent, p.Conn, p.Reply, p.Sets.Open(p.Reply, p.Fetch.PMIDs))
		}))
	}
	r.begin()
	for i := range r.calls.Subs {
		p := &r.calls.Subs[i]
		if p.Err != 0 {
			p.Sets.Fail(p.Fetch.PMIDs, p.Err)
		}
		r.calls.Result.Join(&p.Sets)
	}
	for rest := r.fetch.PMIDs; len(rest) > 0; {
		domain, n := domainRun(rest)
		r.calls.Result.Move(&r.calls.Sub(domain).Sets, n)
		rest = rest[n:]
	}
	return r.finish()
}

// begin starts a reply that is not an agent's, after noticeLen bytes of r.calls.Out.
func (r fetchRequest) begin() {
	r.calls.Result.Limit(r.s.srv.cfg.MaxReply)
	if r.high {
		r.calls.Result.ResetHighRes(r.calls.Out[:noticeLen], 0)
	} else {
		r.calls.Result.Reset(r.calls.Out[:noticeLen], 0)
	}
}

func (r fetchRequest) finish() error {
	b, err := r.calls.Result.Finish()
	if err == nil {
		r.calls.Out = b
	}
	return err
}
