// Package transporttest tests a transport.Transport and the agent behind it. Authors of
// agents use package agenttest, which knows no Transport.
package transporttest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// Test checks the agent behind tr: see agenttest.Test.
func Test(t testing.TB, tr transport.Transport, ids ...pdu.PMID) {
	t.Helper()
	if len(ids) == 0 {
		t.Fatal("the test has no metrics")
	}
	s := &suite{
		TB: t, transport: tr, ids: ids,
		unknown: pdu.NewPMID(ids[0].Domain(), 4095, 1023),
		noInDom: pdu.NewInDom(ids[0].Domain(), 1<<22-1),
		descs:   make(map[pdu.PMID]pdu.Desc),
		insts:   make(map[pdu.InDom][]int32),
	}
	s.testDescs()
	s.testInstances()
	s.testFetch()
	s.testProfiles()
	s.testTexts()
	s.testLabels()
	s.testNames()
	s.testStore()
}

// A suite is one run of the tests, with the replies that later tests need.
type suite struct {
	testing.TB
	transport transport.Transport
	ids       []pdu.PMID
	unknown   pdu.PMID // no metric of any agent
	noInDom   pdu.InDom
	descs     map[pdu.PMID]pdu.Desc
	indoms    []pdu.InDom // of the metrics
	insts     map[pdu.InDom][]int32
}

// checkRefused checks that err is an error code of PCP, and one of want if that is
// not empty.
func (s *suite) checkRefused(what string, err error, want ...pdu.Errno) {
	s.Helper()
	var code pdu.Errno
	switch {
	case !errors.As(err, &code) || code >= 0:
		s.Errorf("%s: got %v, want a pdu.Errno", what, err)
	case len(want) > 0 && !slices.Contains(want, code):
		s.Errorf("%s: got %v, want one of %v", what, code, want)
	}
}

func (s *suite) do(req, reply pdu.Message) error {
	return Do(s.transport, agents.Origin{}, req, reply)
}

func (s *suite) testDescs() {
	s.Helper()
	for _, id := range s.ids {
		var d pdu.Desc
		if err := s.do(&pdu.DescReq{PMID: id}, &d); err != nil {
			s.Errorf("Desc(%v): %v", id, err)
			continue
		}
		if d.PMID != id {
			s.Errorf("Desc(%v) is of %v", id, d.PMID)
		}
		if d.InDom != pdu.NoInDom && d.InDom.Domain() != id.Domain() {
			s.Errorf("Desc(%v): instance domain %v is another agent's", id, d.InDom)
		}
		if d.InDom != pdu.NoInDom && !slices.Contains(s.indoms, d.InDom) {
			s.indoms = append(s.indoms, d.InDom)
		}
		s.descs[id] = d
	}
	s.checkRefused("Desc of an unknown metric", s.do(&pdu.DescReq{PMID: s.unknown}, new(pdu.Desc)), pdu.ErrnoPMID)
	s.testSeveralDescs()
}

// testSeveralDescs asks for several descriptors in one Call.
func (s *suite) testSeveralDescs() {
	s.Helper()
	ids := slices.Concat([]pdu.PMID{s.unknown}, s.ids, []pdu.PMID{s.unknown, s.ids[0]})
	var req []byte
	for _, id := range ids {
		req, _ = pdu.Append(req, 0, &pdu.DescReq{PMID: id})
	}
	b, err := transport.Do(s.transport, &transport.Call{Timeout: time.Minute, Req: req}, nil)
	if err != nil {
		s.Errorf("%d descriptors in one Call: %v", len(ids), err)
		return
	}
	for i, id := range ids {
		n, t, _ := pdu.Header(b)
		if n < pdu.HeaderLen || int(n) > len(b) {
			s.Errorf("%d descriptors in one Call: only %d replies", len(ids), i)
			return
		}
		var d pdu.Desc
		if want, known := s.descs[id]; !known && t != pdu.TypeError {
			s.Errorf("Desc of an unknown metric: %v PDU", t)
		} else if _, err := pdu.ParseInto(b[:n], &d); known && (err != nil || d != want) {
			s.Errorf("Desc(%v) is %+v, %v in a Call with others, and %+v alone", id, d, err, want)
		}
		b = b[n:]
	}
	if len(b) > 0 {
		s.Errorf("%d descriptors in one Call: %d more bytes", len(ids), len(b))
	}
}

// testStore tries to store a value of a metric that does not exist.
func (s *suite) testStore() {
	s.Helper()
	err := s.do(&pdu.Result{Sets: []pdu.ValueSet{{PMID: s.unknown, Values: []pdu.Value{{Inst: pdu.NoInst, Word: 1}}}}}, new(pdu.Error))
	s.checkRefused("Store of an unknown metric", err, pdu.ErrnoPMID, pdu.ErrnoPermission)
}

var allInstances = new(pdu.Profile)

// Do sends req and decodes the reply into reply. A request that needs a profile is
// sent with one that includes all instances. Do returns the code of an ERROR PDU as
// a pdu.Errno, or nil if the code is 0, which is the reply to a successful store.
// The timeout is five seconds.
func Do(tr transport.Transport, o agents.Origin, req, reply pdu.Message) error {
	return do(tr, o, allInstances, req, reply)
}

func do(tr transport.Transport, o agents.Origin, p *pdu.Profile, req, reply pdu.Message) error {
	b, err := pdu.Append(nil, 0, req)
	if err != nil {
		return err
	}
	c := transport.Call{Origin: o, Timeout: time.Minute, Req: b}
	switch req.Type() {
	case pdu.TypeFetch, pdu.TypeLabelReq:
		sent, err := pdu.Append(nil, 0, p)
		if err == nil {
			c.Profile, _, err = transport.ParseProfile(sent)
		}
		if err != nil {
			return err
		}
	}
	if b, err = transport.Do(tr, &c, nil); err != nil {
		return err
	}
	if _, t, _ := pdu.Header(b); t == pdu.TypeError {
		var e pdu.Error
		if _, err := pdu.ParseInto(b, &e); err != nil {
			return err
		}
		if e.Code == 0 { // of a store
			return nil
		}
		return e.Code
	}
	_, err = pdu.ParseInto(b, reply)
	return err
}
