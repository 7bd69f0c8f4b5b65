package session

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/pdu"
)

// noticeLen is the room that fetch leaves before a reply, for the ERROR PDU that
// notifies the client of state changes.
const noticeLen = pdu.HeaderLen + 4

// highResExtra is how much longer the head of a HIGHRES_RESULT is than that
// of a RESULT.
const highResExtra = pdu.SpareHighRes

// hostnameID is pmcd.hostname.
var hostnameID = pdu.NewPMID(2, 0, 21)

// A fetchRequest is a FETCH or a HIGHRES_FETCH.
type fetchRequest struct{ request }

// fetch answers FETCH and HIGHRES_FETCH. Agents know the former only.
func (r fetchRequest) fetch(b []byte) error {
	_, t, _ := pdu.Header(b)
	high := t == pdu.TypeHighResFetch
	if high {
		binary.BigEndian.PutUint32(b[4:], uint32(pdu.TypeFetch)) // the rest is the same
	}
	m := &r.fetchPDU
	if _, err := pdu.ParseInto(b, m); err != nil {
		return r.fail(pdu.ErrnoIPC)
	}
	if len(m.PMIDs) > r.srv.cfg.MaxMetrics {
		return r.fail(pdu.ErrnoTooBig)
	}
	profile := r.profile(m.Context)
	if profile == nil {
		r.srv.cfg.Limiter.Log(slog.LevelError, "no profile", "DoFetch: no profile for ctxnum={context}; client[{client}] {address}",
			"context", m.Context, "client", r.client.Num, "address", r.client.Addr)
		return r.fail(pdu.ErrnoNoProfile)
	}
	r.contexts.current = m.Context
	if r.client.Container.Chosen && slices.Contains(m.PMIDs, hostnameID) {
		r.wait(func() { r.client.Container.LookUpHost(r.srv.cfg.ContainerHost) })
	}
	call := transport.Call{
		Origin:  agents.Origin{Client: r.client.Num, Context: m.Context},
		Profile: profile,
		Timeout: r.srv.cfg.RequestTimeout(),
		Req:     b,
	}
	var repeated bool
	if m.PMIDs, repeated = r.distinct.reduce(m.PMIDs, r.srv.hashSeed); repeated {
		var err error
		if r.req, err = pdu.Append(r.req[:0], 0, m); err != nil {
			return r.fail(errnoOf(err))
		}
		call.Req = r.req
	}
	room := noticeLen
	if high {
		room += highResExtra
	}
	r.out = append(r.out[:0], make([]byte, noticeLen+highResExtra)...)[:room]

	var err error
	if domain, n := domainRun(m.PMIDs); n == len(m.PMIDs) {
		err = r.fetchOne(&call, domain, high)
	} else {
		err = r.fetchSeveral(&call, high)
	}
	if err == nil && repeated {
		defer r.endLarge()
		err = r.repeat()
	}
	if err != nil {
		r.logTooLong(t, nil, err)
		return r.fail(errnoOf(err))
	}
	out := r.out[noticeLen:]
	now := time.Now()
	if high {
		pdu.SetHighResTime(out, now.Unix(), int64(now.Nanosecond()))
	} else {
		pdu.SetResultTime(out, int32(now.Unix()), int32(now.Nanosecond()/1000))
	}
	if r.srv.hostname.due(now) {
		r.srv.CheckHostname(now)
	}
	r.srv.subtrees.check(now)
	if bits := r.client.Notices.Swap(0); bits != 0 {
		appendError(r.out[:0], pdu.Errno(bits))
		_, t, _ = pdu.Header(out)
		r.srv.cfg.Counts.Out(t) // write counts the ERROR
		out = r.out
	}
	return r.write(out)
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
// bytes r.out has the reply, without a time.
func (r fetchRequest) fetchOne(call *transport.Call, domain int, high bool) error {
	err := r.askOne(call, domain, len(r.out))
	switch {
	case err == nil && high:
		pdu.ToHighRes(r.out[noticeLen:])
		return nil
	case err == nil:
		pdu.SetFrom(r.out[noticeLen:], 0)
		return nil
	}
	code := errnoOf(err)
	r.begin(high)
	for _, id := range r.fetchPDU.PMIDs {
		r.result.Fail(id, code)
	}
	return r.finish()
}

// askOne puts the RESULT of the only agent of a fetch into r.out, after start bytes.
func (r fetchRequest) askOne(call *transport.Call, domain, start int) error {
	a, c, err := r.available(domain)
	if err != nil {
		return err
	}
	defer c.Release()
	r.call = *call
	if err := r.roundTrip(a, c, &r.call, &r.out); err != nil {
		return err
	}
	b := r.out[start:]
	return r.checked(a, c, b, pdu.CheckResult(b, r.fetchPDU.PMIDs))
}

// checked handles the outcome of a check of b, the RESULT of an agent. If err is nil,
// clients are notified of the state changes in b.
func (r fetchRequest) checked(a *agentset.Agent, c *agentset.Conn, b []byte, err error) error {
	if err != nil {
		return c.ProtocolError(fmt.Errorf("in its reply to FETCH: %w", err))
	}
	if flags := pdu.StateFlags(b); flags != 0 {
		const allowed = pdu.StateLabelChange | pdu.StateNamesChange
		if flags&^allowed != 0 {
			r.srv.cfg.Limiter.Warn("flags "+a.Name(), "agent {agent:q} (dom {domain}) has reported state changes that only pmcd may report: bits {bits}; they are ignored",
				"agent", a.Name(), "domain", a.Domain, "bits", fmt.Sprintf("%#x", flags&^allowed))
		}
		r.srv.Notify(flags & allowed)
	}
	return nil
}

// fetchSeveral sends to several agents before it waits for any, and puts their value
// sets in the order that the client asked for. The slowest is first: the others do
// their work in its time.
func (r fetchRequest) fetchSeveral(call *transport.Call, high bool) error {
	defer r.reset()
	for rest := r.fetchPDU.PMIDs; len(rest) > 0; {
		domain, n := domainRun(rest)
		f := &r.sub(domain).fetch
		f.PMIDs = append(f.PMIDs, rest[:n]...)
		rest = rest[n:]
	}
	order := r.slowestFirst()
	call.Batched = true
	for _, p := range order {
		p.fetch.Context = call.Origin.Context
		var err error
		p.req, err = pdu.Append(p.req[:0], 0, &p.fetch)
		if p.absent {
			err = pdu.ErrnoNoAgent
		} else if err == nil {
			err = r.sendSub(p, p.fetch.PMIDs[0].Domain(), call)
		}
		p.err = errnoOf(err)
	}
	for _, p := range order {
		if p.err != 0 {
			continue
		}
		p.reply = p.reply[:0]
		err := r.receive(p.agent, p.conn, &p.call, p.sent, &p.reply)
		if err == nil {
			err = r.checked(p.agent, p.conn, p.reply, p.sets.Open(p.reply, p.fetch.PMIDs))
		}
		p.conn.Release()
		p.err = errnoOf(err)
	}
	r.begin(high)
	for i := range r.subs {
		p := &r.subs[i]
		if p.err != 0 {
			p.sets.Fail(p.fetch.PMIDs, p.err)
		}
		r.result.Join(&p.sets)
	}
	for rest := r.fetchPDU.PMIDs; len(rest) > 0; {
		domain, n := domainRun(rest)
		r.result.Move(&r.sub(domain).sets, n)
		rest = rest[n:]
	}
	return r.finish()
}

// repeat puts the value sets in the reply, of which there is one for each PMID, in the
// order of the request. Large replies are made in turns: see largeReplies.
func (r fetchRequest) repeat() error {
	n, err := pdu.RepeatedLen(r.out[noticeLen:], r.distinct.order, r.srv.cfg.MaxReply)
	if err != nil {
		return err
	}
	if r.beginLarge(n); r.srv.aborted.Load() {
		return pdu.ErrnoNoAgent // hundreds may have waited
	}
	r.ans, err = pdu.AppendRepeated(append(r.ans[:0], r.out[:noticeLen]...), r.out[noticeLen:], r.distinct.order, r.srv.cfg.MaxReply)
	r.out, r.ans = r.ans, r.out
	return err
}

// begin starts a reply that is not an agent's, after noticeLen bytes of r.out.
func (r fetchRequest) begin(high bool) {
	r.result.Limit(r.srv.cfg.MaxReply)
	if high {
		r.result.ResetHighRes(r.out[:noticeLen], 0)
	} else {
		r.result.Reset(r.out[:noticeLen], 0)
	}
}

func (r fetchRequest) finish() error {
	b, err := r.result.Finish()
	if err == nil {
		r.out = b
	}
	return err
}
