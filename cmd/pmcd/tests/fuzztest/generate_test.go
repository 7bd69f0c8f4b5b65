package fuzztest

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gopcp/pmcd/pdu"
)

// Domains of the agents. Clients of the fuzzer may ask any of them; lies are told by
// those from domainLiar on.
const (
	domainPmcd     = 2
	domainProc     = 3
	domainLinux    = 60
	domainUnsteady = 239 // the Go plugin
	domainHonest   = 240 // a program
	domainInvolved = 241 // an honest program that no client of the fuzzer asks
	domainLiar     = 242 // and numLiars-1 more
	numLiars       = 4
	domainExternal = domainLiar + numLiars
	domainExtra    = domainExternal + 1 // in some configurations
)

// liarName returns the name of a liar, also in the name space.
func liarName(domain int) string { return fmt.Sprintf("liar%d", domain-domainLiar) }

// A generator makes requests of clients.
type generator struct{ *rand.Rand }

// newGenerator returns a generator whose numbers depend on the text that fmt.Append makes
// of seed.
func newGenerator(seed ...any) generator {
	return generator{rand.New(rand.NewChaCha8(sha256.Sum256(fmt.Append(nil, seed...))))}
}

// id returns the PMID of a metric, which need not exist. A liar asked for it does not
// lie in a way that is rare.
func (g generator) id() pdu.PMID {
	switch g.IntN(10) {
	case 0, 1:
		return pdu.NewPMID(domainPmcd, g.IntN(9), g.IntN(31))
	case 2:
		return pdu.NewPMID(domainHonest, g.IntN(4), g.IntN(20))
	case 3, 4, 5, 6:
		return g.lie(pick(g.Rand, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6))
	case 7: // kernel.all.load and others
		return pick(g.Rand, pdu.NewPMID(domainLinux, 2, 0), pdu.NewPMID(domainLinux, 0, g.IntN(100)), pdu.NewPMID(domainLinux, 3, g.IntN(28)), pdu.NewPMID(domainProc, 8, 99))
	case 8:
		return pdu.NewPMID(domainUnsteady, 0, 0)
	}
	return pdu.PMID(g.Uint32())
}

// lie returns the PMID for which a liar tells a lie.
func (g generator) lie(how int) pdu.PMID {
	item := g.IntN(1024) &^ rareMark
	if lies[how].rare {
		item |= rareMark
	}
	return pdu.NewPMID(domainLiar+g.IntN(numLiars+2), how+len(lies)*g.IntN(2), item)
}

func (g generator) ids(most int) []pdu.PMID {
	if g.IntN(3) > 0 {
		most = min(most, 4)
	}
	ids := make([]pdu.PMID, 1+g.IntN(most))
	for i := range ids {
		if ids[i] = g.id(); i > 0 && g.IntN(3) == 0 {
			ids[i] = ids[i-1] + pdu.PMID(g.IntN(3))
		}
	}
	return ids
}

// indom returns an instance domain for a PMID: that of the metric if it is a liar's.
func (g generator) indom(id pdu.PMID) pdu.InDom {
	if id.Domain() == domainPmcd || g.IntN(8) == 0 {
		return pdu.NewInDom(id.Domain(), g.IntN(10))
	}
	return pdu.InDom(id &^ (1 << 31))
}

// name returns the name of a metric, or of a node above it.
func (g generator) name() string {
	id := g.lie(0)
	return pick(g.Rand, "pmcd", "pmcd.numclients", "pmcd.control", "honest", "honest.word.1", "honest.insts", "kernel.all.load", "network",
		"proc.psinfo", "no.such.name", "", ".", "liar0", "liar1.dyn", "liar2.word.0",
		fmt.Sprintf("%s.dyn.%d.%d", liarName(id.Domain()), id.Cluster(), id.Item()),
		string(randomBytes(g.Rand, 20)))
}

// context returns the number of a context, mostly 0, for which clients have sent a profile.
func (g generator) context() int32 {
	return pick(g.Rand, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, g.Int32N(100), g.Int32())
}

// profile returns a profile.
func (g generator) profile() *pdu.Profile {
	p := &pdu.Profile{Context: g.context(), Exclude: g.IntN(4) == 0}
	for range g.IntN(5) {
		part := pdu.InDomProfile{InDom: g.indom(g.id()), Exclude: g.IntN(2) == 0}
		for range g.IntN(pick(g.Rand, 1, 5, 500)) {
			part.Insts = append(part.Insts, g.Int32N(1000))
		}
		p.InDoms = append(p.InDoms, part)
	}
	return p
}

// A request is a PDU and the type of its reply.
type request struct {
	pdu.Message
	reply pdu.Type // besides ERROR; 0 if there is no reply
}

// request returns a request that is valid, as far as the protocol goes, and has a reply.
func (g generator) request() request { return g.valid(g.anyRequest) }

// requestFor returns a request for a metric of a liar, or for what has the same number.
func (g generator) requestFor(id pdu.PMID) request {
	for {
		r := g.request()
		switch m := r.Message.(type) {
		case *pdu.Fetch:
			m.Context = 0
			if m.PMIDs = append([]pdu.PMID{id}, m.PMIDs...); g.IntN(2) == 0 {
				m.PMIDs = m.PMIDs[:1]
			}
		case *pdu.DescReq:
			m.PMID = id
		case *pdu.InstanceReq:
			m.InDom = pdu.InDom(id)
		case *pdu.TextReq:
			m.Ident = uint32(id)
		case *pdu.LabelReq:
			m.Ident = uint32(id)
		case *pdu.PMNSIDs:
			m.PMIDs = []pdu.PMID{id}
		case *pdu.PMNSNames:
			m.Names = []string{fmt.Sprintf("%s.dyn.%d.%d", liarName(id.Domain()), id.Cluster(), id.Item())}
		default:
			continue
		}
		return r
	}
}

// other returns a PDU that is no request: such without a reply, and stores.
func (g generator) other() request { return g.valid(g.anyOther) }

// valid calls f until what it returns can be encoded.
func (g generator) valid(f func() request) request {
	for {
		r := f()
		if _, err := pdu.Append(nil, 0, r.Message); err == nil {
			return r
		}
	}
}

func (g generator) anyRequest() request {
	id := g.id()
	switch g.IntN(12) {
	case 0, 1, 2:
		return request{&pdu.Fetch{Context: g.context(), PMIDs: g.ids(300)}, pdu.TypeResult}
	case 3:
		return request{&pdu.HighResFetch{Context: g.context(), PMIDs: g.ids(300)}, pdu.TypeHighResResult}
	case 4:
		return request{&pdu.DescReq{PMID: id}, pdu.TypeDesc}
	case 5:
		return request{&pdu.DescIDs{PMIDs: g.ids(100)}, pdu.TypeDescs}
	case 6:
		r := &pdu.InstanceReq{InDom: g.indom(id), Inst: pdu.NoInst}
		switch g.IntN(3) {
		case 0:
			r.Inst = g.Int32N(8)
		case 1:
			r.Name = instName(r.InDom, g.IntN(8))
		}
		return request{r, pdu.TypeInstance}
	case 7:
		kind := pick(g.Rand, pdu.TextOneLine, pdu.TextHelp)
		if g.IntN(2) == 0 {
			return request{&pdu.TextReq{Ident: uint32(id), Kind: kind | pdu.TextPMID}, pdu.TypeText}
		}
		return request{&pdu.TextReq{Ident: uint32(g.indom(id)), Kind: kind | pdu.TextInDom}, pdu.TypeText}
	case 8:
		names := make([]string, 1+g.IntN(pick(g.Rand, 3, 200)))
		for i := range names {
			names[i] = g.name()
		}
		return request{&pdu.PMNSNames{Names: names}, pdu.TypePMNSIDs}
	case 9:
		return request{&pdu.PMNSIDs{PMIDs: []pdu.PMID{id}}, pdu.TypePMNSNames}
	case 10:
		if g.IntN(2) == 0 {
			return request{&pdu.PMNSChild{Subtype: g.Int32N(2), Name: g.name()}, pdu.TypePMNSNames}
		}
		return request{&pdu.PMNSTraverse{Name: g.name()}, pdu.TypePMNSNames}
	}
	kind := pdu.LabelKind(1 << g.IntN(6))
	ident := uint32(id)
	if kind == pdu.LabelInDom || kind == pdu.LabelInstances {
		ident = uint32(g.indom(id))
	}
	return request{&pdu.LabelReq{Ident: ident, Kind: kind}, pdu.TypeLabel}
}

func (g generator) anyOther() request {
	switch g.IntN(8) {
	case 0, 1, 2:
		return request{g.profile(), 0}
	case 3:
		name := pick(g.Rand, boxName, boxName, "unknown", "", "../x", string(randomBytes(g.Rand, 50)))
		return request{&pdu.Attr{Code: pick(g.Rand, pdu.AttrContainer, pdu.AttrContainer, pdu.AttrUserID, pdu.AttrNone, 99), Value: []byte(name)}, 0}
	case 4:
		return request{&pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(pick(g.Rand, pdu.FeatureContainer, pdu.Features(g.Uint32()&g.Uint32()&g.Uint32())))}}, 0}
	case 5:
		return request{&pdu.Error{Code: pick(g.Rand, 0, pdu.ErrnoNotReady, pdu.ErrnoNotConn, pdu.Errno(g.Int32()))}, 0}
	}
	return g.store()
}

// store returns a store into a metric of a liar, or a harmless one of pmcd.
func (g generator) store() request {
	set := pdu.ValueSet{PMID: g.lie(0), Format: pdu.FormatInsitu, Values: []pdu.Value{{Inst: pdu.NoInst, Word: g.Uint32()}}}
	switch g.IntN(6) {
	case 0: // pmcd.control.timeout
		set.PMID, set.Values[0].Word = pdu.NewPMID(domainPmcd, 0, 4), uint32(requestTimeout.Seconds())+g.Uint32N(2)
	case 1: // pmcd.control.register
		set.PMID, set.Values[0].Inst = pdu.NewPMID(domainPmcd, 0, 8), g.Int32N(20)
	case 2: // pmcd.control.tracepdu and its like
		set.PMID, set.Values[0].Word = pdu.NewPMID(domainPmcd, 0, pick(g.Rand, 9, 10, 11, 14)), g.Uint32N(2)
	case 3: // pmcd.client.whoami
		set.PMID, set.Format = pdu.NewPMID(domainPmcd, 6, 0), pdu.FormatBlock
		set.Values[0] = pdu.Value{Inst: pdu.NoInst, Type: pdu.MetricString, Block: append(randomBytes(g.Rand, 300), 0)}
	}
	return request{&pdu.Result{Sets: []pdu.ValueSet{set}}, pdu.TypeError}
}

// encode returns PDUs in wire form.
func encode(rs ...request) (b []byte) {
	for _, r := range rs {
		b, _ = pdu.Append(b, 0, r.Message) // it is valid
	}
	return b
}

// requests returns requests that have replies.
func (g generator) requests(most int) []request {
	rs := make([]request, 1+g.IntN(most))
	for i := range rs {
		rs[i] = g.request()
	}
	return rs
}

// mixture returns requests and other PDUs.
func (g generator) mixture(most int) []request {
	rs := g.requests(most)
	for range g.IntN(3) {
		rs = slices.Insert(rs, g.IntN(len(rs)+1), g.other())
	}
	return rs
}
