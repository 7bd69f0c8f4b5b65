package pmapi

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// allFeatures are those of a pmcd of PCP 6 without TLS.
const allFeatures = pdu.FeatureAuth | pdu.FeatureContainer | pdu.FeatureLabels | pdu.FeatureHighRes | pdu.FeatureDescs

// A fake is a small pmcd. Tests change its fields before a client connects, and its behaviour
// with handle.
type fake struct {
	t        testing.TB
	ln       net.Listener
	features pdu.Features
	tls      *tls.Config

	// handle is called for each request, in turn with other clients. It returns whether
	// the request is done with; otherwise it gets the usual reply.
	handle func(s *session, m pdu.Message) bool
	// accept does the handshake in place of the usual one, if it is not nil.
	accept func(s *session) bool

	mu       sync.Mutex
	values   uint32 // of fake.count; it increases with each fetch
	requests []pdu.Type
	conns    []net.Conn
	wg       sync.WaitGroup
	start    sync.Once
}

// The metrics of a fake.
var (
	countID = pdu.NewPMID(5, 0, 0) // a counter without instances
	loadID  = pdu.NewPMID(5, 0, 1) // with instances
	nameID  = pdu.NewPMID(5, 0, 2) // a string
	fakeDom = pdu.NewInDom(5, 1)

	fakeDescs = []pdu.Desc{
		{PMID: countID, ValueType: pdu.MetricU32, InDom: pdu.NoInDom, Sem: pdu.SemCounter, Units: pdu.Kbyte},
		{PMID: loadID, ValueType: pdu.MetricFloat, InDom: fakeDom, Sem: pdu.SemInstant},
		{PMID: nameID, ValueType: pdu.MetricString, InDom: pdu.NoInDom, Sem: pdu.SemDiscrete},
	}
	fakeNames = []string{"fake.count", "fake.load", "fake.name"}
	fakeInsts = []pdu.Inst{{ID: 1, Name: "1 minute"}, {ID: 5, Name: "5 minute"}}
)

func startFake(t testing.TB) *fake {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t: t, ln: ln, features: allFeatures}
	for _, name := range []string{"PMCD_HOST", "PMCD_PORT", "PMCD_SOCKET", "PMPROXY_HOST", "PMPROXY_PORT"} {
		t.Setenv(name, "")
	}
	t.Cleanup(func() {
		ln.Close()
		f.closeConns()
		f.wg.Wait()
	})
	return f
}

// host starts f, unless it was started, and returns its specification.
func (f *fake) host() string {
	f.start.Do(func() {
		f.wg.Go(func() {
			for {
				nc, err := f.ln.Accept()
				if err != nil {
					return
				}
				s := &session{fake: f, nc: nc, r: pdu.NewReader(nc, 0)}
				f.mu.Lock()
				f.conns = append(f.conns, nc)
				f.mu.Unlock()
				f.wg.Go(s.serve)
			}
		})
	})
	return f.ln.Addr().String()
}

func (f *fake) closeConns() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, nc := range f.conns {
		nc.Close()
	}
	f.conns = nil
}

// seen returns the types of the requests so far, without those of the handshake and probes.
func (f *fake) seen() []pdu.Type {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := f.requests
	f.requests = nil
	return seen
}

// dial returns a client of f for a test.
func (f *fake) dial(o Options) *Client {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Hangs)
	defer cancel()
	c, err := Dial(ctx, f.host(), o)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	return c
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Hangs)
	t.Cleanup(cancel)
	return ctx
}

type session struct {
	*fake
	nc      net.Conn
	r       *pdu.Reader
	profile *pdu.Profile
}

func (s *session) send(ms ...pdu.Message) {
	var b []byte
	for _, m := range ms {
		var err error
		if b, err = pdu.Append(b, 0, m); err != nil {
			s.t.Error(err)
			return
		}
	}
	s.nc.Write(b) // a client that has gone is no failure
}

// recv returns the next message, or nil at the end.
func (s *session) recv() pdu.Message {
	b, err := s.r.Next()
	if err != nil {
		return nil
	}
	_, m, err := pdu.Parse(slices.Clone(b))
	if err != nil {
		s.t.Errorf("request %x: %v", b, err)
		return nil
	}
	return m
}

func (s *session) greet() { s.send(&pdu.Error{Greeting: true, Info: pdu.GreetingInfo(s.features)}) }

// startTLS serves what follows with TLS.
func (s *session) startTLS() {
	s.nc = tls.Server(s.nc, s.tls)
	s.r = pdu.NewReader(s.nc, 0)
}

func (s *session) serve() {
	defer func() { s.nc.Close() }()
	s.mu.Lock()
	accept := s.accept
	s.mu.Unlock()
	if accept != nil {
		if !accept(s) {
			return
		}
	} else {
		s.greet()
		if m, ok := s.recv().(*pdu.Creds); !ok {
			return
		} else if m.Creds[0].Flags()&pdu.FeatureSecure != 0 {
			s.send(&pdu.Error{})
			s.startTLS()
		}
	}
	for {
		m := s.recv()
		if m == nil {
			return
		}
		s.mu.Lock()
		if p, ok := m.(*pdu.PMNSNames); !ok || !slices.Equal(p.Names, probe.Names) {
			s.requests = append(s.requests, m.Type())
		}
		handle := s.handle
		s.mu.Unlock()
		if handle != nil && handle(s, m) {
			continue
		}
		s.reply(m)
	}
}

func (f *fake) setHandle(h func(*session, pdu.Message) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handle = h
}

func (f *fake) setAccept(a func(*session) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.accept = a
}

func fakeID(name string) pdu.PMID {
	if i := slices.Index(fakeNames, name); i >= 0 {
		return fakeDescs[i].PMID
	}
	return pdu.NoPMID
}

// reply sends what a pmcd with the metrics of a fake replies.
func (s *session) reply(m pdu.Message) {
	switch m := m.(type) {
	case *pdu.PMNSNames:
		r := &pdu.PMNSIDs{}
		for _, name := range m.Names {
			id := fakeID(name)
			if id != pdu.NoPMID {
				r.Status++
			} else if len(m.Names) == 1 {
				code := pdu.ErrnoName
				if name == "fake" {
					code = pdu.ErrnoNonLeaf
				}
				s.send(&pdu.Error{Code: code})
				return
			}
			r.PMIDs = append(r.PMIDs, id)
		}
		s.send(r)
	case *pdu.PMNSIDs:
		for i, d := range fakeDescs {
			if d.PMID == m.PMIDs[0] {
				s.send(&pdu.PMNSNames{Names: []string{fakeNames[i]}})
				return
			}
		}
		s.send(&pdu.Error{Code: pdu.ErrnoPMID})
	case *pdu.PMNSChild:
		switch m.Name {
		case "":
			s.send(&pdu.PMNSNames{Names: []string{"fake"}, Status: []int32{pdu.NonLeafStatus}})
		case "fake":
			s.send(&pdu.PMNSNames{Names: []string{"count", "load", "name"}, Status: []int32{0, 0, 0}})
		case "dynamic": // an agent that fails
			s.send(&pdu.PMNSNames{Err: pdu.ErrnoAgain})
		default:
			s.send(&pdu.Error{Code: pdu.ErrnoName})
		}
	case *pdu.PMNSTraverse:
		names := slices.DeleteFunc(slices.Clone(fakeNames), func(n string) bool { return !strings.HasPrefix(n, m.Name) })
		if len(names) == 0 {
			s.send(&pdu.Error{Code: pdu.ErrnoName})
			return
		}
		s.send(&pdu.PMNSNames{Names: names})
	case *pdu.DescReq:
		if d := fakeDesc(m.PMID); d.PMID != pdu.NoPMID {
			s.send(&d)
			return
		}
		s.send(&pdu.Error{Code: pdu.ErrnoPMID})
	case *pdu.DescIDs:
		r := &pdu.Descs{}
		for _, id := range m.PMIDs {
			r.Descs = append(r.Descs, fakeDesc(id))
		}
		s.send(r)
	case *pdu.InstanceReq:
		s.replyInstances(m)
	case *pdu.TextReq:
		if m.Kind&pdu.TextHelp != 0 {
			switch pdu.PMID(m.Ident) {
			case nameID:
				s.send(&pdu.Text{})
			default:
				s.send(&pdu.Error{Code: pdu.ErrnoText})
			}
			return
		}
		s.send(&pdu.Text{Text: fmt.Sprintf("text %d of %v", m.Kind, pdu.PMID(m.Ident))})
	case *pdu.LabelReq:
		s.replyLabels(m)
	case *pdu.Profile:
		s.profile = m
	case *pdu.Fetch:
		sec, usec := int32(1000), int32(500)
		s.send(&pdu.Result{Sec: sec, Usec: usec, Sets: s.valuesOf(m.PMIDs)})
	case *pdu.HighResFetch:
		s.send(&pdu.HighResResult{Sec: 1000, Nsec: 123456789, Sets: s.valuesOf(m.PMIDs)})
	case *pdu.Result:
		var code pdu.Errno
		for _, set := range m.Sets {
			if set.PMID != countID {
				code = pdu.ErrnoPermission
			}
		}
		s.send(&pdu.Error{Code: code})
	default:
		s.t.Errorf("request %v", m.Type())
	}
}

func fakeDesc(id pdu.PMID) pdu.Desc {
	for _, d := range fakeDescs {
		if d.PMID == id {
			return d
		}
	}
	return pdu.Desc{PMID: pdu.NoPMID}
}

func (s *session) replyInstances(m *pdu.InstanceReq) {
	r := &pdu.Instance{InDom: m.InDom}
	for _, inst := range fakeInsts {
		switch {
		case m.InDom != fakeDom:
		case m.Inst == pdu.NoInst && m.Name == "":
			r.Insts = append(r.Insts, inst)
		case m.Name == inst.Name:
			r.Insts = append(r.Insts, pdu.Inst{ID: inst.ID})
		case m.Inst == inst.ID:
			r.Insts = append(r.Insts, pdu.Inst{ID: pdu.NoInst, Name: inst.Name})
		}
	}
	if len(r.Insts) == 0 {
		s.send(&pdu.Error{Code: pdu.ErrnoInDom})
		return
	}
	s.send(r)
}

func (s *session) replyLabels(m *pdu.LabelReq) {
	r := &pdu.Labels{Ident: m.Ident, Kind: m.Kind}
	add := func(inst int32, labels ...pdu.NamedLabel) {
		set, err := pdu.NewLabelSet(inst, m.Kind, labels...)
		if err != nil {
			s.t.Error(err)
		}
		r.Sets = append(r.Sets, set)
	}
	switch m.Kind {
	case pdu.LabelContext:
		add(pdu.NoInst, pdu.NamedLabel{Name: "hostname", Value: `"h"`}, pdu.NamedLabel{Name: "level", Value: "1"})
	case pdu.LabelDomain:
		add(pdu.NoInst, pdu.NamedLabel{Name: "agent", Value: `"fake"`}, pdu.NamedLabel{Name: "level", Value: "2", Flags: pdu.LabelOptional})
	case pdu.LabelItem:
		add(pdu.NoInst, pdu.NamedLabel{Name: "level", Value: "5"})
	case pdu.LabelInstances:
		add(1, pdu.NamedLabel{Name: "minutes", Value: "1"})
		add(5, pdu.NamedLabel{Name: "level", Value: "6"})
	}
	s.send(r)
}

func (s *session) valuesOf(ids []pdu.PMID) []pdu.ValueSet {
	s.mu.Lock()
	s.values += 10
	count := s.values
	s.mu.Unlock()
	var sets []pdu.ValueSet
	for _, id := range ids {
		switch id {
		case countID:
			sets = append(sets, NewValueSet(id, pdu.NoInst, ValueOf(count)))
		case loadID:
			set := pdu.ValueSet{PMID: id, Format: pdu.FormatBlock}
			for _, inst := range fakeInsts {
				if s.profile != nil && s.profile.Includes(fakeDom, inst.ID) {
					set.Values = append(set.Values, NewValueSet(id, inst.ID, ValueOf(float32(inst.ID)/4)).Values...)
				}
			}
			sets = append(sets, set)
		case nameID:
			sets = append(sets, NewValueSet(id, pdu.NoInst, ValueOf("a name")))
		default:
			sets = append(sets, pdu.ValueSet{PMID: id, Err: pdu.ErrnoPMID})
		}
	}
	return sets
}
