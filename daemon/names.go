package daemon

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// The static name space answers without asking agents. Names at or below a
// dynamic root (DOMAIN:*:*) are the agent's of that domain, which is asked
// with full names (protocol: names stay as the client wrote them).

// namesToIDs answers PMNS_NAMES. One name that cannot be resolved is an error;
// among several it is a null PMID.
//
// C pmcd differs: an agent that is fenced or not ready, or answers another error
// than that there is no such name, makes the whole request fail.
func (s *session) namesToIDs(w *work, b []byte) error {
	var m pdu.PMNSNames
	if _, err := pdu.ParseInto(b, &m); err != nil || m.Err != 0 {
		return s.fail(w, pdu.ErrnoIPC)
	}
	if len(m.Names) == 0 {
		return s.fail(w, pdu.ErrnoTooSmall)
	}
	tree := w.routes.Tree()
	reply := pdu.PMNSIDs{PMIDs: make([]pdu.PMID, len(m.Names))}
	for i, name := range m.Names {
		id, err := s.nameToID(w, tree, name)
		switch {
		case err == nil:
			reply.Status++
		case len(m.Names) == 1:
			return s.fail(w, errnoOf(err))
		default:
			id = pdu.NoPMID
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
		root := pmnsload.DynamicRoot{Name: tree.Find(name).Name, Domain: id.DynamicDomain()}
		m, err := s.askName(w, root, &pdu.PMNSNames{Names: []string{name}})
		if err != nil {
			return 0, err
		}
		ids := m.(*pdu.PMNSIDs)
		switch {
		case len(ids.PMIDs) != 1:
			return 0, pdu.ErrnoIPC
		case ids.Status < 0:
			return 0, pdu.Errno(ids.Status)
		case ids.PMIDs[0] == pdu.NoPMID:
			return 0, pdu.ErrnoName
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
	if names := w.routes.Tree().Names(id); len(names) > 0 && !id.IsDynamicRoot() {
		return s.reply(w, &pdu.PMNSNames{Names: names})
	}
	answer, err := s.ask(w, id.Domain(), nil, b, pdu.ErrnoNoAgent)
	switch names, _ := answer.(*pdu.PMNSNames); {
	case err != nil:
		return s.fail(w, errnoOf(err))
	case names.Err == 0 && len(names.Names) == 0: // clients take the first
		return s.fail(w, pdu.ErrnoPMID)
	}
	pdu.SetFrom(w.ans, 0)
	return s.write(w.ans)
}

// children answers PMNS_CHILD.
func (s *session) children(w *work, b []byte) error {
	var m pdu.PMNSChild
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return s.fail(w, pdu.ErrnoIPC)
	}
	tree := w.routes.Tree()
	e := tree.Find(m.Name)
	switch e.Kind {
	case pmnsload.Dynamic:
		return s.dynamicChildren(w, pmnsload.DynamicRoot{Name: e.Name, Domain: e.Domain}, &m)
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
func (s *session) dynamicChildren(w *work, root pmnsload.DynamicRoot, m *pdu.PMNSChild) error {
	answer, err := s.askName(w, root, m)
	switch code := errnoOf(err); code {
	case 0:
	case pdu.ErrnoNoAgent, pdu.ErrnoPMDAFenced:
		return s.fail(w, code)
	default:
		return s.reply(w, &pdu.PMNSNames{Err: code})
	}
	names := answer.(*pdu.PMNSNames)
	switch {
	case m.Subtype == 0:
		names.Status = nil
	case len(names.Status) < len(names.Names): // clients look at them
		return s.reply(w, &pdu.PMNSNames{Err: pdu.ErrnoIPC})
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
	tree := w.routes.Tree()
	if e := tree.Find(m.Name); e.Kind == pmnsload.Dynamic {
		return s.traverseDynamic(w, pmnsload.DynamicRoot{Name: e.Name, Domain: e.Domain}, &m)
	}
	names := &w.names
	names.Reset(w.out)
	defer func() { w.out = names.Own() }()
	s.addNames(w, tree.Stretches(m.Name))
	if names.Names() == 0 {
		return s.fail(w, pdu.ErrnoName)
	}
	pieces, err := names.Finish()
	if err != nil {
		return s.fail(w, errnoOf(err))
	}
	return s.writePieces(pieces)
}

// traverseDynamic answers PMNS_TRAVERSE of a name at or below a dynamic root. If
// the agent is not there, or fenced, the answer for the root is its own name, as
// if it were a leaf. In all other cases an agent that cannot tell the names is an
// error.
func (s *session) traverseDynamic(w *work, root pmnsload.DynamicRoot, m *pdu.PMNSTraverse) error {
	answer, err := s.askName(w, root, m)
	switch code := errnoOf(err); {
	case code == 0:
	case m.Name == root.Name && (code == pdu.ErrnoNoAgent || code == pdu.ErrnoPMDAFenced):
		return s.reply(w, &pdu.PMNSNames{Names: []string{root.Name}})
	default:
		return s.fail(w, code)
	}
	names := answer.(*pdu.PMNSNames)
	s.dropStrays(w, root, names)
	switch {
	case names.Err != 0:
		return s.fail(w, names.Err)
	case len(names.Names) == 0:
		return s.fail(w, pdu.ErrnoName)
	}
	names.Status = nil
	return s.reply(w, names)
}

// addNames adds the names of stretches to w.names, asking agents for several
// dynamic roots before it waits for the first. A root whose agent cannot tell the
// names below it is itself in the list, as if it were a leaf, and the rest is
// complete. PM_ERR_NAME says that there is nothing below the root.
func (s *session) addNames(w *work, stretches []pmnsload.Stretch) {
	defer w.reset()
	w.parts = slices.Grow(w.parts[:0], askAhead) // calls on their way stay where they are
	call := transport.Call{
		Origin:  agents.Origin{Client: s.num},
		Timeout: time.Duration(s.d.timeout.Load()),
	}
	var unsent [askAhead]error
	for i, stretch := range stretches {
		if i%askAhead == 0 {
			w.parts = w.parts[:0]
			for k, stretch := range stretches[i:min(i+askAhead, len(stretches))] {
				if p := w.nextPart(); stretch.Root != nil {
					unsent[k] = s.sendTraverse(w, p, stretch.Root, &call)
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
		err, asked := unsent[i%askAhead], false
		if err == nil {
			err, asked = s.receiveMessage(p, &answer), true
		}
		if err == nil && answer.Err != 0 {
			err = answer.Err
		}
		if s.noteNames(w, *stretch.Root, err, asked); failedNames(err) {
			w.names.Name(stretch.Root.Name)
			continue
		}
		s.dropStrays(w, *stretch.Root, &answer)
		for _, name := range answer.Names {
			w.names.Name(name)
		}
	}
}

// sendTraverse asks for the names at or below a dynamic root.
func (s *session) sendTraverse(w *work, p *part, root *pmnsload.DynamicRoot, call *transport.Call) (err error) {
	if p.req, err = pdu.Append(p.req[:0], 0, &pdu.PMNSTraverse{Name: root.Name}); err != nil {
		return err
	}
	return s.sendPart(w, p, root.Domain, call)
}

// dropStrays leaves out of names, the answer of the agent of a dynamic root to a
// traverse, those that are neither the root's nor below it: they could hide, or
// pass for, names of others.
func (s *session) dropStrays(w *work, root pmnsload.DynamicRoot, names *pdu.PMNSNames) {
	n := len(names.Names)
	names.Names = slices.DeleteFunc(names.Names, func(name string) bool { return !atOrBelow(root.Name, name) })
	if n -= len(names.Names); n > 0 {
		who := fmt.Sprintf("the agent of domain %d", root.Domain)
		if a := w.routes.Agent(root.Domain); a != nil {
			who = fmt.Sprintf("agent %q (dom %d)", a.Name(), a.Domain)
		}
		s.d.limiter.Printf(fmt.Sprint("stray names ", root.Domain), "PMNS: %s gave %d names that are not below %q; they are left out", who, n, root.Name)
	}
}

// atOrBelow reports whether name is root or a name below it, without an empty
// component.
func atOrBelow(root, name string) bool {
	rest, ok := strings.CutPrefix(name, root)
	return ok && (rest == "" || rest[0] == '.' && !strings.HasSuffix(rest, ".") && !strings.Contains(rest, ".."))
}

// askName asks the agent of a dynamic root about names at or below it. An agent
// that is late counts as one that is down.
func (s *session) askName(w *work, root pmnsload.DynamicRoot, req pdu.Message) (m pdu.Message, err error) {
	if w.req, err = pdu.Append(w.req[:0], 0, req); err != nil {
		return nil, err
	}
	a, l, err := s.available(w, root.Domain)
	if err != nil {
		s.noteNames(w, root, err, false)
		return nil, err
	}
	defer l.Release()
	m, err = s.askAgent(w, a, l, nil, w.req)
	if t, ok := req.(*pdu.PMNSTraverse); ok && t.Name == root.Name {
		answer := err
		if names, ok := m.(*pdu.PMNSNames); ok && err == nil && names.Err != 0 {
			answer = names.Err
		}
		s.noteNames(w, root, answer, true)
	} else if err == transport.ErrLate || err == transport.ErrNotReady {
		s.noteNames(w, root, err, false)
	}
	if err == transport.ErrLate {
		err = pdu.ErrnoNoAgent
	}
	return m, err
}
