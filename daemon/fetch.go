package daemon

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/pdu"
)

// noticeLen is the room that fetch leaves in front of a reply: state changes
// are told by an ERROR PDU ahead of it.
const noticeLen = pdu.HeaderLen + 4

// highResExtra is how much longer the head of a HIGHRES_RESULT is than that
// of a RESULT.
const highResExtra = pdu.SpareHighRes

// fetch answers FETCH and HIGHRES_FETCH. Agents know the former only.
func (s *session) fetch(w *work, b []byte) error {
	_, t, _ := pdu.Header(b)
	high := t == pdu.TypeHighResFetch
	if high {
		binary.BigEndian.PutUint32(b[4:], uint32(pdu.TypeFetch)) // the rest is the same
	}
	m := &w.fetch
	if _, err := pdu.ParseInto(b, m); err != nil {
		return s.fail(w, pdu.ErrnoIPC)
	}
	if len(m.PMIDs) > s.d.cfg.MaxMetrics {
		return s.fail(w, pdu.ErrnoTooBig)
	}
	profile := s.contexts.get(m.Context)
	if profile == nil {
		s.d.limiter.Log(zap.ErrorLevel, "no profile", "DoFetch: no profile for ctxnum=%d; client[%d] %s", m.Context, s.num, s.addr)
		return s.fail(w, pdu.ErrnoNoProfile)
	}
	s.current = m.Context
	if s.contained && slices.Contains(m.PMIDs, hostnameID) {
		s.observe()
	}
	call := transport.Call{
		Origin:  agents.Origin{Client: s.num, Context: m.Context},
		Profile: profile,
		Timeout: time.Duration(s.d.timeout.Load()),
		Req:     b,
	}
	room := noticeLen
	if high {
		room += highResExtra
	}
	w.out = append(w.out[:0], make([]byte, noticeLen+highResExtra)...)[:room]

	var err error
	if domain, n := stretch(m.PMIDs); n == len(m.PMIDs) {
		err = s.fetchOne(w, &call, domain, high)
	} else {
		err = s.fetchParts(w, &call, high)
	}
	if err != nil {
		return s.fail(w, errnoOf(err))
	}
	out := w.out[noticeLen:]
	now := time.Now()
	if high {
		pdu.SetHighResTime(out, now.Unix(), int64(now.Nanosecond()))
	} else {
		pdu.SetResultTime(out, int32(now.Unix()), int32(now.Nanosecond()/1000))
	}
	s.d.noticeHostname(now)
	s.d.checkNames(now)
	if bits := s.notices.Swap(0); bits != 0 {
		appendError(w.out[:0], pdu.Errno(bits))
		_, t, _ = pdu.Header(out)
		s.d.counts.Out(t) // write counts the ERROR
		out = w.out
	}
	return s.write(out)
}

// stretch reports how many of ids, of which there are some, are of one domain
// from the first on. Clients ask for the metrics of an agent one after the other.
func stretch(ids []pdu.PMID) (domain, n int) {
	domain = ids[0].Domain()
	for n = 1; n < len(ids) && ids[n].Domain() == domain; n++ {
	}
	return domain, n
}

// fetchOne has one agent's RESULT become the reply as it is, but for its
// head. Behind noticeLen bytes w.out gets a reply without a time.
func (s *session) fetchOne(w *work, call *transport.Call, domain int, high bool) error {
	err := s.askOne(w, call, domain, len(w.out))
	switch {
	case err == nil && high:
		pdu.ToHighRes(w.out[noticeLen:])
		return nil
	case err == nil:
		pdu.SetFrom(w.out[noticeLen:], 0)
		return nil
	}
	code := errnoOf(err)
	s.begin(w, high)
	for _, id := range w.fetch.PMIDs {
		w.result.Fail(id, code)
	}
	return s.finish(w)
}

// askOne has the RESULT of the one agent of a fetch behind start bytes of
// w.out.
func (s *session) askOne(w *work, call *transport.Call, domain, start int) error {
	a, l, err := s.available(w, domain)
	if err != nil {
		return err
	}
	defer l.Release()
	w.call = *call
	if err := s.exchange(a, l, &w.call, &w.out); err != nil {
		return err
	}
	b := w.out[start:]
	return s.checked(a, l, b, pdu.CheckResult(b, w.fetch.PMIDs))
}

// checked is told what is wrong with b, the RESULT of an agent. If nothing is it
// passes on the state changes in it.
func (s *session) checked(a *agentset.Agent, l *agentset.Conn, b []byte, err error) error {
	if err != nil {
		return l.ProtocolError(fmt.Errorf("in answer to FETCH: %w", err))
	}
	if flags := pdu.StateFlags(b); flags != 0 {
		const allowed = pdu.StateLabelChange | pdu.StateNamesChange
		if flags&^allowed != 0 {
			s.d.limiter.Printf("flags "+a.Name(), "agent %q (dom %d): state change bits %#x are not an agent's", a.Name(), a.Domain, flags&^allowed)
		}
		s.d.notice(flags & allowed)
	}
	return nil
}

// fetchParts asks several agents, all before it waits for any, and puts their
// value sets in the order that the client asked for. The slowest is asked first:
// what the others do fits in its time.
func (s *session) fetchParts(w *work, call *transport.Call, high bool) error {
	defer w.reset()
	for rest := w.fetch.PMIDs; len(rest) > 0; {
		domain, n := stretch(rest)
		f := &w.part(domain).fetch
		f.PMIDs = append(f.PMIDs, rest[:n]...)
		rest = rest[n:]
	}
	order := w.slowestFirst()
	for _, p := range order {
		p.fetch.Context = call.Origin.Context
		var err error
		p.req, err = pdu.Append(p.req[:0], 0, &p.fetch)
		if err == nil {
			err = s.sendPart(w, p, p.fetch.PMIDs[0].Domain(), call)
		}
		p.err = errnoOf(err)
	}
	for _, p := range order {
		if p.err != 0 {
			continue
		}
		p.reply = p.reply[:0]
		err := s.receive(p.agent, p.conn, &p.call, p.sent, &p.reply)
		if err == nil {
			err = s.checked(p.agent, p.conn, p.reply, p.sets.Open(p.reply, p.fetch.PMIDs))
		}
		p.conn.Release()
		p.err = errnoOf(err)
	}
	s.begin(w, high)
	for i := range w.parts {
		p := &w.parts[i]
		if p.err != 0 {
			p.sets.Fail(p.fetch.PMIDs, p.err)
		}
		w.result.Join(&p.sets)
	}
	for rest := w.fetch.PMIDs; len(rest) > 0; {
		domain, n := stretch(rest)
		w.result.Move(&w.part(domain).sets, n)
		rest = rest[n:]
	}
	return s.finish(w)
}

// begin starts a reply of our own making, behind noticeLen bytes of w.out.
func (s *session) begin(w *work, high bool) {
	if high {
		w.result.ResetHighRes(w.out[:noticeLen], 0)
	} else {
		w.result.Reset(w.out[:noticeLen], 0)
	}
}

func (s *session) finish(w *work) error {
	b, err := w.result.Finish()
	if err == nil {
		w.out = b
	}
	return err
}
