package transporttest

import (
	"slices"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// fetch fetches ids in a context with profile p.
func (s *suite) fetch(context int32, p *pdu.Profile, ids []pdu.PMID) []pdu.ValueSet {
	s.Helper()
	var r pdu.Result
	o := agents.Origin{Client: 3, Context: context}
	if err := do(s.transport, o, p, &pdu.Fetch{Context: context, PMIDs: ids}, &r); err != nil {
		s.Fatalf("Fetch(%v): %v", ids, err)
	}
	if len(r.Sets) != len(ids) {
		s.Fatalf("Fetch of %d metrics returned %d value sets", len(ids), len(r.Sets))
	}
	for i, vs := range r.Sets {
		if vs.PMID != ids[i] {
			s.Errorf("Fetch: set %d is of %v, want %v", i, vs.PMID, ids[i])
		}
	}
	return r.Sets
}

// testFetch checks that the value sets have the order of the request, which has one
// metric twice and an unknown one. It fetches in two contexts of one client, so
// that the profile has to be sent again.
func (s *suite) testFetch() {
	s.Helper()
	ids := append([]pdu.PMID{s.unknown, s.ids[0]}, s.ids...)
	for context := range int32(2) {
		sets := s.fetch(context, allInstances, ids)
		if len(sets[0].Values) > 0 { // no error is required: pmdasample returns none
			s.Errorf("Fetch: unknown metric %v has values", s.unknown)
		}
		if a, b := sets[1], sets[2]; a.Err != b.Err || len(a.Values) != len(b.Values) {
			s.Errorf("Fetch: metric %v is not the same twice: %+v and %+v", a.PMID, a, b)
		}
		for _, vs := range sets[1:] {
			s.checkSet(vs)
		}
	}
	if sets := s.fetch(0, allInstances, []pdu.PMID{s.unknown}); len(sets[0].Values) > 0 {
		s.Errorf("Fetch: unknown metric %v alone has values", s.unknown)
	}
}

// blockSizes are the sizes of value blocks, in bytes.
var blockSizes = map[pdu.MetricType]int{pdu.Metric64: 8, pdu.MetricU64: 8, pdu.MetricFloat: 4, pdu.MetricDouble: 8}

// checkSet checks the values of a metric against its descriptor and its instances.
func (s *suite) checkSet(vs pdu.ValueSet) {
	s.Helper()
	d, ok := s.descs[vs.PMID]
	if !ok {
		return
	}
	if vs.Err > 0 || vs.Err < 0 && len(vs.Values) > 0 {
		s.Errorf("Fetch: %v has error %d and %d values", vs.PMID, vs.Err, len(vs.Values))
	}
	if d.InDom == pdu.NoInDom && len(vs.Values) > 1 {
		s.Errorf("Fetch: %v has no instance domain and %d values", vs.PMID, len(vs.Values))
	}
	seen := make(map[int32]bool)
	for _, v := range vs.Values {
		switch {
		case d.InDom == pdu.NoInDom && v.Inst != pdu.NoInst:
			s.Errorf("Fetch: %v has no instance domain and instance %d", vs.PMID, v.Inst)
		case d.InDom != pdu.NoInDom && !slices.Contains(s.insts[d.InDom], v.Inst):
			s.Errorf("Fetch: %v has instance %d, which is not in %v", vs.PMID, v.Inst, d.InDom)
		case seen[v.Inst]:
			s.Errorf("Fetch: %v has instance %d twice", vs.PMID, v.Inst)
		}
		seen[v.Inst] = true
		word := d.ValueType == pdu.Metric32 || d.ValueType == pdu.MetricU32
		if insitu := vs.Format == pdu.FormatInsitu; insitu != word {
			s.Errorf("Fetch: %v is of type %v and in format %d", vs.PMID, d.ValueType, vs.Format)
		} else if insitu {
			continue
		}
		if v.Type != d.ValueType {
			s.Errorf("Fetch: %v has a value of type %v, not %v", vs.PMID, v.Type, d.ValueType)
		}
		if size, ok := blockSizes[d.ValueType]; ok && len(v.Block) != size {
			s.Errorf("Fetch: %v has a value of %d bytes", vs.PMID, len(v.Block))
		}
	}
}

// testProfiles fetches with profiles that exclude all instances, no instances, all
// but one, and one. Each profile must take effect.
func (s *suite) testProfiles() {
	s.Helper()
	context := int32(10)
	check := func(what string, p *pdu.Profile) {
		s.Helper()
		context++
		p.Context = context
		for _, vs := range s.fetch(context, p, s.ids) {
			d, ok := s.descs[vs.PMID]
			if !ok {
				continue
			}
			s.checkSet(vs)
			if d.InDom == pdu.NoInDom {
				continue
			}
			for _, v := range vs.Values {
				if !p.Includes(d.InDom, v.Inst) {
					s.Errorf("Fetch of %s: %v has instance %d", what, vs.PMID, v.Inst)
				}
			}
		}
	}
	check("no instances", &pdu.Profile{Exclude: true})
	check("all instances", new(pdu.Profile))
	onlyLast, allButLast := &pdu.Profile{Exclude: true}, new(pdu.Profile)
	for _, indom := range s.indoms {
		if insts := s.insts[indom]; len(insts) > 0 {
			last := insts[len(insts)-1:]
			onlyLast.InDoms = append(onlyLast.InDoms, pdu.InDomProfile{InDom: indom, Exclude: true, Insts: last})
			allButLast.InDoms = append(allButLast.InDoms, pdu.InDomProfile{InDom: indom, Insts: last})
		}
	}
	// A profile of more than 1 KiB stays in wire form until the agent is called.
	long := &pdu.Profile{Exclude: true, InDoms: append(slices.Clip(onlyLast.InDoms), pdu.InDomProfile{InDom: s.noInDom, Exclude: true, Insts: make([]int32, 300)})}
	check("one instance, long", long)
	check("one instance", onlyLast)
	check("all instances but one", allButLast)
	check("instances of no such domain", &pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: s.noInDom, Exclude: true, Insts: []int32{1, 2}}}})
	// An included instance that has a value without a profile has one with it.
	full, filtered := s.fetch(0, allInstances, s.ids), s.fetch(context+1, withContext(onlyLast, context+1), s.ids)
	for i, vs := range full {
		d, ok := s.descs[vs.PMID]
		if !ok {
			continue
		}
		for _, v := range vs.Values {
			same := func(o pdu.Value) bool { return o.Inst == v.Inst }
			if (d.InDom == pdu.NoInDom || onlyLast.Includes(d.InDom, v.Inst)) && !slices.ContainsFunc(filtered[i].Values, same) {
				s.Errorf("Fetch of one instance: %v has no value for %d", vs.PMID, v.Inst)
			}
		}
	}
}

func withContext(p *pdu.Profile, context int32) *pdu.Profile {
	return &pdu.Profile{Context: context, Exclude: p.Exclude, InDoms: p.InDoms}
}
