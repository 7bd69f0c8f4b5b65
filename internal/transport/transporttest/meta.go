package transporttest

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/pdu"
)

// testInstances makes all three requests for instances: for all of them, for the
// name of each and for the number of each (pmGetInDom(3), pmNameInDom(3),
// pmLookupInDom(3)).
func (s *suite) testInstances() {
	s.Helper()
	request := func(what string, req pdu.InstanceReq) (reply pdu.Instance, ok bool) {
		s.Helper()
		if err := s.do(&req, &reply); err != nil {
			s.Errorf("%s of %v: %v", what, req.InDom, err)
			return reply, false
		}
		if reply.InDom != req.InDom {
			s.Errorf("%s of %v is of %v", what, req.InDom, reply.InDom)
		}
		return reply, true
	}
	for _, indom := range s.indoms {
		all, ok := request("Instances", pdu.InstanceReq{InDom: indom, Inst: pdu.NoInst})
		if !ok {
			continue
		}
		unusedID := int32(1 << 30) // no instance
		names := make(map[string]bool)
		for _, inst := range all.Insts {
			if inst.ID == pdu.NoInst || slices.Contains(s.insts[indom], inst.ID) {
				s.Errorf("Instances of %v: %d is -1 or occurs twice", indom, inst.ID)
			}
			if inst.Name == "" || names[inst.Name] {
				s.Errorf("Instances of %v: name %q is empty or occurs twice", indom, inst.Name)
			}
			s.insts[indom] = append(s.insts[indom], inst.ID)
			names[inst.Name] = true
			for unusedID == inst.ID || slices.Contains(s.insts[indom], unusedID) {
				unusedID++
			}
		}
		for i, inst := range all.Insts {
			if i == 100 { // enough
				break
			}
			if r, ok := request("The name of an instance", pdu.InstanceReq{InDom: indom, Inst: inst.ID}); ok &&
				(len(r.Insts) != 1 || r.Insts[0].Name != inst.Name) {
				s.Errorf("the name of instance %d of %v: %+v, want %q", inst.ID, indom, r.Insts, inst.Name)
			}
			if r, ok := request("The number of an instance", pdu.InstanceReq{InDom: indom, Inst: pdu.NoInst, Name: inst.Name}); ok &&
				(len(r.Insts) != 1 || r.Insts[0].ID != inst.ID) {
				s.Errorf("the number of instance %q of %v: %+v, want %d", inst.Name, indom, r.Insts, inst.ID)
			}
		}
		s.checkRefused("Name of an unknown instance", s.do(&pdu.InstanceReq{InDom: indom, Inst: unusedID}, new(pdu.Instance)), pdu.ErrnoInst)
		s.checkRefused("Number of an unknown instance", s.do(&pdu.InstanceReq{InDom: indom, Inst: pdu.NoInst, Name: "no such instance"}, new(pdu.Instance)), pdu.ErrnoInst)
	}
	s.checkRefused("Instances of an unknown domain", s.do(&pdu.InstanceReq{InDom: s.noInDom, Inst: pdu.NoInst}, new(pdu.Instance)), pdu.ErrnoInDom)
}

// testTexts requests the help texts of all metrics and instance domains. The reply
// must be a text or PM_ERR_TEXT.
func (s *suite) testTexts() {
	s.Helper()
	check := func(ident uint32, what string, kind pdu.TextKind) {
		s.Helper()
		for _, kind := range []pdu.TextKind{kind | pdu.TextOneLine, kind | pdu.TextHelp} {
			var text pdu.Text
			switch err := s.do(&pdu.TextReq{Ident: ident, Kind: kind}, &text); {
			case errors.Is(err, pdu.ErrnoText):
			case err != nil:
				s.Errorf("Text of %s (%v): %v", what, kind, err)
			case text.Text == "":
				s.Errorf("Text of %s (%v) is empty", what, kind)
			case kind&pdu.TextOneLine != 0 && strings.Contains(text.Text, "\n"):
				s.Errorf("The one-line text of %s has several lines: %q", what, text.Text)
			}
		}
	}
	for _, id := range s.ids {
		check(uint32(id), id.String(), pdu.TextPMID)
	}
	for _, indom := range s.indoms {
		check(uint32(indom), indom.String(), pdu.TextInDom)
	}
	for _, kind := range []pdu.TextKind{pdu.TextOneLine, pdu.TextHelp} {
		s.checkRefused("Text of an unknown metric", s.do(&pdu.TextReq{Ident: uint32(s.unknown), Kind: pdu.TextPMID | kind}, new(pdu.Text)), pdu.ErrnoText, pdu.ErrnoPMID)
	}
}

// testLabels requests labels of each kind that pmcd requests from an agent. The
// reply may have labels or none, or be an error of PCP.
func (s *suite) testLabels() {
	s.Helper()
	s.checkLabels(pdu.LabelDomain, uint32(s.ids[0].Domain()))
	for _, id := range s.ids {
		s.checkLabels(pdu.LabelCluster, uint32(pdu.NewPMID(id.Domain(), id.Cluster(), 0)))
		s.checkLabels(pdu.LabelItem, uint32(id))
	}
	for _, indom := range s.indoms {
		s.checkLabels(pdu.LabelInDom, uint32(indom))
		s.checkLabels(pdu.LabelInstances, uint32(indom))
	}
}

func (s *suite) checkLabels(kind pdu.LabelKind, ident uint32) {
	s.Helper()
	var r pdu.Labels
	if err := s.do(&pdu.LabelReq{Ident: ident, Kind: kind}, &r); err != nil {
		s.checkRefused("Labels", err)
		return
	}
	if r.Ident != ident || r.Kind != kind {
		s.Errorf("Labels (%v) of %#x are (%v) of %#x", kind, ident, r.Kind, r.Ident)
	}
	if kind != pdu.LabelInstances && len(r.Sets) > 1 {
		s.Errorf("Labels (%v) of %#x: %d sets", kind, ident, len(r.Sets))
	}
	seen := make(map[int32]bool)
	for _, set := range r.Sets {
		if kind == pdu.LabelInstances {
			if seen[set.Inst] || !slices.Contains(s.insts[pdu.InDom(ident)], set.Inst) {
				s.Errorf("Labels of the instances of %v: %d is not an instance, or occurs twice", pdu.InDom(ident), set.Inst)
			}
			seen[set.Inst] = true
		}
		s.checkLabelSet(kind, &set)
	}
}

// checkLabelSet checks that names and values are at the offsets that the set says.
func (s *suite) checkLabelSet(kind pdu.LabelKind, set *pdu.LabelSet) {
	s.Helper()
	if set.Err < 0 || len(set.Labels) == 0 {
		return
	}
	if !json.Valid(set.JSON) || set.JSON[0] != '{' {
		s.Errorf("Labels (%v): %q is not a JSON object", kind, set.JSON)
		return
	}
	names := make(map[string]bool)
	for _, l := range set.Labels {
		end := max(int(l.Name)+int(l.NameLen), int(l.Value)+int(l.ValueLen))
		if end > len(set.JSON) {
			s.Errorf("Labels (%v): a label ends at byte %d of %q", kind, end, set.JSON)
			continue
		}
		name, value := set.Name(l), set.Value(l)
		if name == "" || names[name] || !json.Valid(value) {
			s.Errorf("Labels (%v): name %q is empty or occurs twice, or its value is not JSON: %q", kind, name, value)
		}
		names[name] = true
		if pdu.LabelKind(l.Flags)&kind == 0 {
			s.Errorf("Labels (%v): %q has flags %#x", kind, name, l.Flags)
		}
	}
}

// testNames requests the names of each metric, and for each name its metric. It
// checks that the name is among the children of its parent and below its parent.
func (s *suite) testNames() {
	s.Helper()
	for _, id := range s.ids {
		var r pdu.PMNSNames
		if err := s.do(&pdu.PMNSIDs{PMIDs: []pdu.PMID{id}}, &r); err != nil {
			s.checkRefused("Names", err)
			continue
		}
		for _, name := range r.Names {
			s.checkName(id, name)
		}
	}
	s.checkRefused("Names of an unknown metric", s.do(&pdu.PMNSIDs{PMIDs: []pdu.PMID{s.unknown}}, new(pdu.PMNSNames)))
	s.checkRefused("PMID of an unknown name", s.do(&pdu.PMNSNames{Names: []string{"no.such.name"}}, new(pdu.PMNSIDs)))
	for _, req := range []pdu.Message{&pdu.PMNSChild{Subtype: 1, Name: "no.such.name"}, &pdu.PMNSTraverse{Name: "no.such.name"}} {
		var r pdu.PMNSNames
		if err := s.do(req, &r); err != nil {
			s.checkRefused("Names below an unknown one", err)
		} else if len(r.Names) > 0 { // pmdasample replies with no names and no error
			s.Errorf("%v of an unknown name: %q", req.Type(), r.Names)
		}
	}
}

func (s *suite) checkName(id pdu.PMID, name string) {
	s.Helper()
	var ids pdu.PMNSIDs
	if err := s.do(&pdu.PMNSNames{Names: []string{name}}, &ids); err != nil || len(ids.PMIDs) != 1 || ids.PMIDs[0] != id {
		s.Errorf("PMID(%s) is %v, %v; want %v", name, ids.PMIDs, err, id)
	}
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return
	}
	parent, last := name[:dot], name[dot+1:]
	for _, from := range []string{name, parent} {
		var r pdu.PMNSNames
		if err := s.do(&pdu.PMNSTraverse{Name: from}, &r); err != nil || !slices.Contains(r.Names, name) {
			s.Errorf("Traverse(%s) is %q, %v; want %s among it", from, r.Names, err, name)
		}
	}
	var r pdu.PMNSNames
	if err := s.do(&pdu.PMNSChild{Subtype: 1, Name: parent}, &r); err != nil || !slices.Contains(r.Names, last) {
		s.Errorf("Children(%s) are %q, %v; want %s among them", parent, r.Names, err, last)
	} else if i := slices.Index(r.Names, last); len(r.Status) != len(r.Names) || r.Status[i] != pdu.LeafStatus {
		s.Errorf("Children(%s): status %d, want %s to be a leaf", parent, r.Status, last)
	}
}
