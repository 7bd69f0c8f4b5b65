package daemon

import (
	"slices"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// The static name space answers without asking agents. Names at or below a
// dynamic root (DOMAIN:*:*) are the agent's of that domain, which is asked
// with full names (protocol: names stay as the client wrote them).

// namesToIDs answers PMNS_NAMES. One name that cannot be resolved is an error;
// among several it is a null PMID, unless an agent cannot say.
func (s *session) namesToIDs(w *work, b []byte) error {
	var m pdu.PMNSNames
	if _, err := pdu.ParseInto(b, &m); err != nil || m.Err != 0 {
		return s.fail(w, pdu.ErrnoIPC)
	}
	if len(m.Names) == 0 {
		return s.fail(w, pdu.ErrnoTooSmall)
	}
	tree := w.routes.tree
	reply := pdu.PMNSIDs{PMIDs: make([]pdu.PMID, len(m.Names))}
	for i, name := range m.Names {
		id, err := s.nameToID(w, tree, name)
		switch code := errnoOf(err); {
		case code == 0:
			reply.Status++
		case len(m.Names) == 1:
			return s.fail(w, code)
		case code == pdu.ErrnoName, code == pdu.ErrnoNonLeaf, code == pdu.ErrnoNoAgent:
			id = pdu.NoPMID
		default:
			return s.fail(w, code)
		}
		reply.PMIDs[i] = id
	}
	return s.reply(w, &reply)
}

func (s *session) nameToID(w *work, tree *pmnsload.Tree, name string) (pdu.PMID, error) {
	id, kind := tree.PMID(name)
	switch kind {
	case pmnsload.Leaf:
		return id, nil
	case pmnsload.NonLeaf:
		return 0, pdu.ErrnoNonLeaf
	case pmnsload.Dynamic:
		m, err := s.askName(w, id.DynamicDomain(), &pdu.PMNSNames{Names: []string{name}})
		if err != nil {
			return 0, err
		}
		ids := m.(*pdu.PMNSIDs)
		switch {
		case len(ids.PMIDs) != 1:
			return 0, pdu.ErrnoIPC
		case ids.Status < 0:
			return 0, pdu.Errno(ids.Status)
		}
		return ids.PMIDs[0], nil
	}
	return 0, pdu.ErrnoName
}

// idToNames answers PMNS_IDS: all names of a metric.
func (s *session) idToNames(w *work, b []byte) error {
	var m pdu.PMNSIDs
	if _, err := pdu.ParseInto(b, &m); err != nil || len(m.PMIDs) != 1 {
		return s.fail(w, pdu.ErrnoIPC)
	}
	id := m.PMIDs[0]
	if names := w.routes.tree.Names(id); len(names) > 0 && !id.IsDynamicRoot() {
		return s.reply(w, &pdu.PMNSNames{Names: names})
	}
	return s.relay(w, id.Domain(), b, pdu.ErrnoNoAgent)
}

// children answers PMNS_CHILD.
func (s *session) children(w *work, b []byte) error {
	var m pdu.PMNSChild
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return s.fail(w, pdu.ErrnoIPC)
	}
	tree := w.routes.tree
	e := tree.Find(m.Name)
	switch e.Kind {
	case pmnsload.Dynamic:
		return s.dynamicChildren(w, e.Domain, &m)
	case pmnsload.NonLeaf, pmnsload.Leaf:
		reply := new(pdu.PMNSNames)
		for _, c := range tree.Children(m.Name) {
			reply.Names = append(reply.Names, c.Name)
			if m.Subtype != 0 {
				reply.Status = append(reply.Status, leafStatus(c.Leaf))
			}
		}
		return s.reply(w, reply)
	}
	return s.fail(w, pdu.ErrnoName)
}

func leafStatus(leaf bool) int32 {
	if leaf {
		return pdu.LeafStatus
	}
	return pdu.NonLeafStatus
}

// dynamicChildren relays PMNS_CHILD. What the agent does not answer is told
// in a PMNS_NAMES PDU, as C pmcd does.
func (s *session) dynamicChildren(w *work, domain int, m *pdu.PMNSChild) error {
	answer, err := s.askName(w, domain, m)
	switch code := errnoOf(err); code {
	case 0:
	case pdu.ErrnoNoAgent, pdu.ErrnoPMDAFenced:
		return s.fail(w, code)
	default:
		return s.reply(w, &pdu.PMNSNames{Err: code})
	}
	names := answer.(*pdu.PMNSNames)
	if m.Subtype == 0 {
		names.Status = nil
	}
	return s.reply(w, names)
}

// traverse answers PMNS_TRAVERSE: the names of all leaves, depth first, each
// dynamic root replaced by the names that its agent has.
func (s *session) traverse(w *work, b []byte) error {
	var m pdu.PMNSTraverse
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return s.fail(w, pdu.ErrnoIPC)
	}
	tree := w.routes.tree
	var stretches []pmnsload.Stretch
	root := true
	if e := tree.Find(m.Name); e.Kind == pmnsload.Dynamic {
		root = m.Name == e.Name
		stretches = []pmnsload.Stretch{{Root: &pmnsload.DynamicRoot{Name: m.Name, Domain: e.Domain}}}
	} else {
		stretches = tree.Stretches(m.Name)
	}
	names := &w.names
	names.Reset(w.out)
	defer func() { w.out = names.Own() }()
	if err := s.addNames(w, stretches, root); err != nil {
		return s.fail(w, errnoOf(err))
	}
	if names.Names() == 0 {
		return s.fail(w, pdu.ErrnoName)
	}
	pieces, err := names.Finish()
	if err != nil {
		return s.fail(w, errnoOf(err))
	}
	return s.writePieces(pieces)
}

// addNames adds the names of stretches to w.names, asking agents for several
// dynamic roots before it waits for the first. An agent that fails makes the
// request fail; if it is not there its root stays in the list, if root says so, as
// if it were a leaf.
func (s *session) addNames(w *work, stretches []pmnsload.Stretch, root bool) error {
	defer w.reset()
	w.parts = slices.Grow(w.parts[:0], askAhead) // calls on their way stay where they are
	call := agents.Call{
		Origin:  agents.Origin{Client: s.num},
		Timeout: time.Duration(s.d.timeout.Load()),
	}
	var failed error
	for i, stretch := range stretches {
		if i%askAhead == 0 {
			w.parts = w.parts[:0]
			for _, stretch := range stretches[i:min(i+askAhead, len(stretches))] {
				if p := w.nextPart(); stretch.Root != nil {
					p.err = errnoOf(s.sendTraverse(w, p, stretch.Root, &call))
				}
			}
		}
		w.names.Stretch(stretch.Wire, stretch.Names, stretch.Bytes)
		if stretch.Root == nil {
			continue
		}
		// All answers are received, also those that are of no use any more.
		p := &w.parts[i%askAhead]
		var answer pdu.PMNSNames
		if p.err == 0 {
			p.err = errnoOf(late(s.receiveMessage(p, &answer)))
		}
		for _, name := range answer.Names {
			w.names.Name(name)
		}
		switch {
		case p.err == pdu.ErrnoNoAgent, p.err == pdu.ErrnoPMDAFenced:
			if root {
				w.names.Name(stretch.Root.Name)
			}
		case failed == nil && p.err != 0:
			failed = p.err
		case failed == nil && answer.Err != 0:
			failed = answer.Err
		}
	}
	return failed
}

// sendTraverse asks for the names at or below a dynamic root.
func (s *session) sendTraverse(w *work, p *part, root *pmnsload.DynamicRoot, call *agents.Call) (err error) {
	if p.req, err = pdu.Append(p.req[:0], 0, &pdu.PMNSTraverse{Name: root.Name}); err != nil {
		return err
	}
	return late(s.sendPart(w, p, root.Domain, call))
}

// askName asks the agent that has a dynamic part of the name space.
func (s *session) askName(w *work, domain int, req pdu.Message) (m pdu.Message, err error) {
	if w.req, err = pdu.Append(w.req[:0], 0, req); err != nil {
		return nil, err
	}
	m, err = s.ask(w, domain, nil, w.req, pdu.ErrnoNoAgent)
	return m, late(err)
}

// late makes an agent that is late one that is down: a name space is better with
// a gap than not at all.
func late(err error) error {
	if err == agents.ErrLate {
		return pdu.ErrnoNoAgent
	}
	return err
}
