// Package names answers requests for names of metrics. It asks agents for the names below
// their dynamic roots, and keeps which of them clients have missed.
package names

import (
	"github.com/gopcp/pmcd/daemon/internal/calls"
	"github.com/gopcp/pmcd/internal/relay"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// The static name space answers without asking agents. Names at or below a
// dynamic root (DOMAIN:*:*) are the agent's of that domain, which is asked
// with full names (protocol: names stay as the client wrote them).

// A Request answers a PDU with a request for names. An error, as calls.Errno knows it, is
// the answer if there is no other.
type Request struct {
	Calls   *calls.Caller
	Missing *Missing
}

// IDs answers PMNS_NAMES. One name that cannot be resolved is an error;
// among several it is a null PMID.
//
// C pmcd differs: an agent that is fenced or not ready, or answers another error
// than that there is no such name, makes the whole request fail.
func (r Request) IDs(b []byte) ([]byte, error) {
	var m pdu.PMNSNames
	if _, err := pdu.ParseInto(b, &m); err != nil || m.Err != 0 {
		return nil, pdu.ErrnoIPC
	}
	if len(m.Names) == 0 {
		return nil, pdu.ErrnoTooSmall
	}
	tree := r.Calls.Routes.Tree()
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
				return nil, pdu.ErrnoNonLeaf
			}
		default:
			if len(m.Names) == 1 {
				return nil, pdu.ErrnoName
			}
		}
		reply.PMIDs[i] = pdu.NoPMID
	}
	if len(dynamic.names) > 0 {
		if r.askNames(&dynamic); dynamic.last != 0 && len(m.Names) == 1 {
			return nil, dynamic.last
		}
		for _, of := range dynamic.of {
			if reply.PMIDs[of.name] = dynamic.ids[of.item]; reply.PMIDs[of.name] != pdu.NoPMID {
				reply.Status++
			}
		}
	}
	return r.Calls.Reply(&reply)
}

// Names answers PMNS_IDS: all names of a metric.
func (r Request) Names(b []byte) ([]byte, error) {
	var m pdu.PMNSIDs
	if _, err := pdu.ParseInto(b, &m); err != nil || len(m.PMIDs) != 1 {
		return nil, pdu.ErrnoIPC
	}
	id := m.PMIDs[0]
	if names := r.Calls.Routes.Tree().Names(id); len(names) > 0 && !id.IsDynamicRoot() {
		return r.Calls.Reply(&pdu.PMNSNames{Names: names})
	}
	call := r.Calls.NewCall(0, nil, b)
	answer, err := r.Calls.Ask(id.Domain(), &call, pdu.ErrnoNoAgent)
	switch names, _ := answer.(*pdu.PMNSNames); {
	case err != nil:
		return nil, err
	case names.Err == 0 && len(names.Names) == 0: // clients take the first
		return nil, pdu.ErrnoPMID
	}
	return r.Calls.Answer(), nil
}

// Children answers PMNS_CHILD.
func (r Request) Children(b []byte) ([]byte, error) {
	var m pdu.PMNSChild
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return nil, pdu.ErrnoIPC
	}
	tree := r.Calls.Routes.Tree()
	e := tree.Find(m.Name)
	switch e.Kind {
	case pmnsload.Dynamic:
		return r.dynamicChildren(pmnsload.DynamicRoot{Name: e.Name, Domain: e.Domain}, &m)
	case pmnsload.NonLeaf, pmnsload.Leaf:
		reply := new(pdu.PMNSNames)
		for _, c := range tree.Children(m.Name) {
			reply.Names = append(reply.Names, c.Name)
			if m.Subtype == 0 {
				continue
			}
			reply.Status = append(reply.Status, pdu.NonLeafStatus)
			if c.Leaf {
				reply.Status[len(reply.Status)-1] = pdu.LeafStatus
			}
		}
		return r.Calls.Reply(reply)
	}
	return nil, pdu.ErrnoName
}

// Traverse answers PMNS_TRAVERSE: the names of all leaves, depth first, each
// dynamic root replaced by the names that its agent has. The reply is in pieces.
func (r Request) Traverse(b []byte) ([][]byte, error) {
	var m pdu.PMNSTraverse
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return nil, pdu.ErrnoIPC
	}
	c, tree := r.Calls, r.Calls.Routes.Tree()
	if e := tree.Find(m.Name); e.Kind == pmnsload.Dynamic {
		b, err := r.traverseDynamic(pmnsload.DynamicRoot{Name: e.Name, Domain: e.Domain}, &m)
		return [][]byte{b}, err
	}
	var names relay.NamesWriter
	names.Limit(c.Config.MaxReply)
	names.Reset(c.Out)
	c.Out = nil // or BeforeWait would give the memory that names has to others
	defer func() { c.Out = names.Own() }()
	r.addNames(&names, tree.Stretches(m.Name))
	if names.Names() == 0 {
		return nil, pdu.ErrnoName
	}
	pieces, err := names.Finish()
	if err != nil {
		c.LogTooLong(pdu.TypePMNSTraverse, nil, err)
	}
	return pieces, err
}
