package session

import (
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// The static name space answers without asking agents. Names at or below a
// dynamic root (DOMAIN:*:*) are the agent's of that domain, which is asked
// with full names (protocol: names stay as the client wrote them).

// A nameRequest is a request for names of metrics.
type nameRequest struct{ request }

// namesToIDs answers PMNS_NAMES. One name that cannot be resolved is an error;
// among several it is a null PMID.
//
// C pmcd differs: an agent that is fenced or not ready, or answers another error
// than that there is no such name, makes the whole request fail.
func (r nameRequest) namesToIDs(b []byte) error {
	var m pdu.PMNSNames
	if _, err := pdu.ParseInto(b, &m); err != nil || m.Err != 0 {
		return r.fail(pdu.ErrnoIPC)
	}
	if len(m.Names) == 0 {
		return r.fail(pdu.ErrnoTooSmall)
	}
	tree := r.routes.Tree()
	reply := pdu.PMNSIDs{PMIDs: make([]pdu.PMID, len(m.Names))}
	var dynamic dynamicNames
	for i, name := range m.Names {
		id, kind := tree.PMID(name)
		switch kind {
		case pmnsload.Leaf:
			reply.PMIDs[i] = id
			reply.Status++
			continue
		case pmnsload.Dynamic:
			dynamic.add(int32(i), name, tree.Find(name))
		case pmnsload.NonLeaf:
			if len(m.Names) == 1 {
				return r.fail(pdu.ErrnoNonLeaf)
			}
		default:
			if len(m.Names) == 1 {
				return r.fail(pdu.ErrnoName)
			}
		}
		reply.PMIDs[i] = pdu.NoPMID
	}
	if len(dynamic.names) > 0 {
		if r.askNames(&dynamic); dynamic.last != 0 && len(m.Names) == 1 {
			return r.fail(dynamic.last)
		}
		for _, of := range dynamic.of {
			if reply.PMIDs[of.name] = dynamic.ids[of.item]; reply.PMIDs[of.name] != pdu.NoPMID {
				reply.Status++
			}
		}
	}
	return r.reply(&reply)
}

// idToNames answers PMNS_IDS: all names of a metric.
func (r nameRequest) idToNames(b []byte) error {
	var m pdu.PMNSIDs
	if _, err := pdu.ParseInto(b, &m); err != nil || len(m.PMIDs) != 1 {
		return r.fail(pdu.ErrnoIPC)
	}
	id := m.PMIDs[0]
	if names := r.routes.Tree().Names(id); len(names) > 0 && !id.IsDynamicRoot() {
		return r.reply(&pdu.PMNSNames{Names: names})
	}
	answer, err := r.ask(id.Domain(), nil, b, pdu.ErrnoNoAgent)
	switch names, _ := answer.(*pdu.PMNSNames); {
	case err != nil:
		return r.fail(errnoOf(err))
	case names.Err == 0 && len(names.Names) == 0: // clients take the first
		return r.fail(pdu.ErrnoPMID)
	}
	pdu.SetFrom(r.ans, 0)
	return r.write(r.ans)
}

// children answers PMNS_CHILD.
func (r nameRequest) children(b []byte) error {
	var m pdu.PMNSChild
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return r.fail(pdu.ErrnoIPC)
	}
	tree := r.routes.Tree()
	e := tree.Find(m.Name)
	switch e.Kind {
	case pmnsload.Dynamic:
		return r.dynamicChildren(pmnsload.DynamicRoot{Name: e.Name, Domain: e.Domain}, &m)
	case pmnsload.NonLeaf, pmnsload.Leaf:
		reply := new(pdu.PMNSNames)
		for _, c := range tree.Children(m.Name) {
			reply.Names = append(reply.Names, c.Name)
			if m.Subtype != 0 {
				reply.Status = append(reply.Status, leafStatus(c.Leaf))
			}
		}
		return r.reply(reply)
	}
	return r.fail(pdu.ErrnoName)
}

func leafStatus(leaf bool) int32 {
	if leaf {
		return pdu.LeafStatus
	}
	return pdu.NonLeafStatus
}

// traverse answers PMNS_TRAVERSE: the names of all leaves, depth first, each
// dynamic root replaced by the names that its agent has.
func (r nameRequest) traverse(b []byte) error {
	var m pdu.PMNSTraverse
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return r.fail(pdu.ErrnoIPC)
	}
	tree := r.routes.Tree()
	if e := tree.Find(m.Name); e.Kind == pmnsload.Dynamic {
		return r.traverseDynamic(pmnsload.DynamicRoot{Name: e.Name, Domain: e.Domain}, &m)
	}
	names := &r.namesOut
	names.Limit(r.srv.cfg.MaxReply)
	names.Reset(r.out)
	r.out = nil // or BeforeWait would lend the memory that names has to others
	defer func() { r.out = names.Own() }()
	r.addNames(tree.Stretches(m.Name))
	if names.Names() == 0 {
		return r.fail(pdu.ErrnoName)
	}
	pieces, err := names.Finish()
	if err != nil {
		r.logTooLong(pdu.TypePMNSTraverse, nil, err)
		return r.fail(errnoOf(err))
	}
	return r.writePieces(pieces)
}
