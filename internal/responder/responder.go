// Package responder calls the methods of an Agent for request PDUs and makes reply PDUs
// of what they return.
package responder

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// A Responder calls an Agent for request PDUs. transport.Inline, transport.Local and
// serve.Server use it, so an Agent replies in the same way in pmcd's process and behind
// a stream. One goroutine may use a Responder at a time.
//
// An agent may have strings from anywhere: other programs, hosts and users. So no control characters
// are in names of instances and in texts, but tabs, and newlines in texts; those in string values and
// labels are escaped when the agent makes the value or the label set (package pdu).
//
// C differs: clients get what the agent has.
type Responder struct {
	Agent agents.Agent
	Max   int // longest reply, in bytes; 0 is DefaultMax

	fetch pdu.Fetch // the last one; its memory is reused
	req   agents.FetchRequest
	w     pdu.ResultWriter
}

// A Request is a request of a client for an Agent.
type Request struct {
	Origin  agents.Origin
	Profile *pdu.Profile // nil includes all instances
	PDU     []byte       // or several, if they are no fetches
}

// DefaultMax is the default of Responder.Max. A client that asks for all metrics of a
// host with 20,000 processes, as pcp-atop does, needs 50 MiB.
const DefaultMax = 64 << 20

var noProfile = new(pdu.Profile) // all instances

// Reply calls the method of the Agent that req is for and appends the reply PDU to
// dst. If the method returns an error, the reply is an ERROR PDU. Reply itself returns
// an error if req.PDU is not a valid request to an agent.
//
// If there are several PDUs in req.PDU, Reply does so for each, and calls
// Err of the context between them.
func (r *Responder) Reply(ctx context.Context, req Request, dst []byte) (_ []byte, err error) {
	n, t, _ := pdu.Header(req.PDU)
	if t == pdu.TypeFetch {
		return r.replyFetch(ctx, req, dst)
	}
	for rest := req.PDU; n >= pdu.HeaderLen && int(n) < len(rest); n, _, _ = pdu.Header(rest) {
		req.PDU, rest = rest[:n], rest[n:]
		if dst, err = r.replyOne(ctx, req, dst); err != nil {
			return dst, err
		}
		if err := ctx.Err(); err != nil {
			return dst, err
		}
		req.PDU = rest
	}
	return r.replyOne(ctx, req, dst)
}

// replyOne is Reply for one PDU that is no fetch.
func (r *Responder) replyOne(ctx context.Context, req Request, dst []byte) ([]byte, error) {
	_, m, err := pdu.Parse(req.PDU)
	if err != nil {
		return dst, err
	}
	reply, err := r.call(ctx, req, m)
	if err == nil {
		var b []byte
		if b, err = pdu.Append(dst, 0, reply); err == nil {
			if len(b)-len(dst) <= r.max() {
				return b, nil
			}
			err = pdu.ErrnoTooBig
		}
	}
	return appendError(dst, err)
}

func (r *Responder) max() int { return cmp.Or(r.Max, DefaultMax) }

func appendError(dst []byte, err error) ([]byte, error) {
	return pdu.Append(dst, 0, &pdu.Error{Code: pdu.ErrnoOf(err)})
}

func (r *Responder) replyFetch(ctx context.Context, req Request, dst []byte) ([]byte, error) {
	if _, err := pdu.ParseInto(req.PDU, &r.fetch); err != nil {
		return dst, err
	}
	profile := req.Profile
	if profile == nil {
		profile = noProfile
	}
	// The context number is that of the request. That of the profile may be another: a
	// profile that includes all instances serves several contexts.
	from := agents.Origin{Client: req.Origin.Client, Context: r.fetch.Context}
	r.req = agents.FetchRequest{Origin: from, PMIDs: r.fetch.PMIDs, Profile: profile}
	r.w.Limit(r.max())
	defer func() {
		if r.w.Cap() > 64<<10 { // too large to keep
			r.w = pdu.ResultWriter{}
			releaseLater()
		}
	}()
	r.w.Reset(dst, 0)
	err := r.Agent.Fetch(ctx, &r.req, &r.w)
	b, werr := r.w.Finish()
	switch n := r.w.Len(); {
	case err != nil:
	case werr != nil:
		err = werr
	case n != len(r.req.PMIDs):
		err = fmt.Errorf("%d value sets for %d metrics", n, len(r.req.PMIDs))
	default:
		return b, nil
	}
	return appendError(dst, err)
}

// call calls the method of the Agent for the request m and returns the reply. If the
// Agent does not implement the optional interface, the error is that of the default
// functions of libpcp_pmda (PMDA(3)).
func (r *Responder) call(ctx context.Context, req Request, m pdu.Message) (pdu.Message, error) {
	o := req.Origin
	switch m := m.(type) {
	case *pdu.DescReq:
		d, err := r.Agent.Desc(ctx, o, m.PMID)
		return &d, err
	case *pdu.InstanceReq:
		return r.instance(ctx, o, m)
	case *pdu.TextReq:
		return r.text(ctx, o, m)
	case *pdu.LabelReq:
		reply := &pdu.Labels{Ident: m.Ident, Kind: m.Kind}
		a, ok := r.Agent.(agents.Labeler)
		if !ok {
			return reply, nil
		}
		sets, err := a.Labels(ctx, o, m.Kind, m.Ident)
		if m.Kind == pdu.LabelInstances && req.Profile != nil {
			sets = wanted(sets, req.Profile.For(pdu.InDom(m.Ident)))
		}
		reply.Sets = sets
		return reply, err
	case *pdu.Result:
		a, ok := r.Agent.(agents.Storer)
		if !ok {
			return nil, pdu.ErrnoPermission
		}
		if err := a.Store(ctx, o, m); err != nil {
			return nil, err
		}
		return new(pdu.Error), nil
	case *pdu.PMNSNames, *pdu.PMNSIDs, *pdu.PMNSChild, *pdu.PMNSTraverse:
		return r.names(ctx, o, m)
	}
	return nil, pdu.ErrnoIPC // as libpcp_pmda replies to other PDUs
}

// wanted returns the sets of the instances that a profile includes (pmdaLabel(3)). It
// does not change the slice, which may belong to the Agent.
func wanted(all []pdu.LabelSet, p pdu.InDomProfile) (sets []pdu.LabelSet) {
	for _, s := range all {
		if s.Inst == pdu.NoInst || p.Includes(s.Inst) {
			sets = append(sets, s)
		}
	}
	return sets
}

// instance makes the reply to each of the three forms of INSTANCE_REQ from the list of
// all instances (pmGetInDom(3), pmLookupInDom(3), pmNameInDom(3)). A name without
// blanks also matches an instance name of which it is the first word (pmdaInstance(3)).
func (r *Responder) instance(ctx context.Context, o agents.Origin, m *pdu.InstanceReq) (pdu.Message, error) {
	a, ok := r.Agent.(agents.Instancer)
	if !ok {
		return nil, pdu.ErrnoInDom
	}
	reply := &pdu.Instance{InDom: m.InDom}
	if n, ok := r.Agent.(agents.InstNamer); ok && m.Name == "" && m.Inst != pdu.NoInst {
		name, err := n.InstName(ctx, o, m.InDom, m.Inst)
		name = pdu.EscapeControls(name, "\t")
		reply.Insts = []pdu.Inst{{ID: pdu.NoInst, Name: name}}
		return reply, err
	}
	all, err := a.Instances(ctx, o, m.InDom)
	if err != nil {
		return nil, err
	}
	all = escapeNames(all)
	switch {
	case m.Inst == pdu.NoInst && m.Name == "":
		reply.Insts = all
		return reply, nil
	case m.Inst != pdu.NoInst && m.Name != "":
		return nil, pdu.ErrnoInst
	}
	name := m.Name
	if s, ok := r.Agent.(agents.InstSpeller); ok && name != "" {
		name = s.SpellInst(m.InDom, name)
	}
	for _, inst := range all {
		first, _, _ := strings.Cut(inst.Name, " ")
		switch {
		case name != "" && inst.Name == name:
			reply.Insts = []pdu.Inst{{ID: inst.ID}}
			return reply, nil
		case name != "" && first == name && reply.Insts == nil:
			reply.Insts = []pdu.Inst{{ID: inst.ID}}
		case m.Name == "" && inst.ID == m.Inst:
			reply.Insts = []pdu.Inst{{ID: pdu.NoInst, Name: inst.Name}}
			return reply, nil
		}
	}
	if reply.Insts == nil {
		return nil, pdu.ErrnoInst
	}
	return reply, nil
}

// escapeNames escapes control characters in names of instances. It does not change the slice, which may
// belong to the Agent.
func escapeNames(all []pdu.Inst) []pdu.Inst {
	changed := false
	for i, inst := range all {
		name := pdu.EscapeControls(inst.Name, "\t")
		if name == inst.Name {
			continue
		}
		if !changed {
			all, changed = slices.Clone(all), true
		}
		all[i].Name = name
	}
	return all
}

func (r *Responder) text(ctx context.Context, o agents.Origin, m *pdu.TextReq) (pdu.Message, error) {
	a, ok := r.Agent.(agents.Texter)
	if !ok {
		return nil, pdu.ErrnoText
	}
	oneline := m.Kind&pdu.TextOneLine != 0
	var text string
	var err error
	if m.Kind&pdu.TextInDom != 0 {
		text, err = a.InDomText(ctx, o, pdu.InDom(m.Ident), oneline)
	} else {
		text, err = a.Text(ctx, o, pdu.PMID(m.Ident), oneline)
	}
	if err == nil && text == "" {
		err = pdu.ErrnoText
	}
	text = pdu.EscapeControls(text, "\t\n")
	return &pdu.Text{Ident: pdu.TextIdent(m.Ident), Text: text}, err
}

func (r *Responder) names(ctx context.Context, o agents.Origin, m pdu.Message) (pdu.Message, error) {
	a, ok := r.Agent.(agents.Namer)
	if !ok {
		if m.Type() == pdu.TypePMNSIDs {
			return nil, pdu.ErrnoPMID
		}
		return nil, pdu.ErrnoName
	}
	switch m := m.(type) {
	case *pdu.PMNSNames:
		reply := new(pdu.PMNSIDs)
		for _, name := range m.Names {
			id, err := a.PMID(ctx, o, name)
			if err != nil {
				return nil, err
			}
			reply.PMIDs = append(reply.PMIDs, id)
			reply.Status++
		}
		return reply, nil
	case *pdu.PMNSIDs:
		if len(m.PMIDs) != 1 {
			return nil, pdu.ErrnoIPC
		}
		names, err := a.Names(ctx, o, m.PMIDs[0])
		return &pdu.PMNSNames{Names: names}, err
	case *pdu.PMNSTraverse:
		names, err := a.Traverse(ctx, o, m.Name)
		return &pdu.PMNSNames{Names: names}, err
	case *pdu.PMNSChild:
		children, err := a.Children(ctx, o, m.Name)
		if err != nil {
			return nil, err
		}
		reply := new(pdu.PMNSNames)
		for _, c := range children {
			reply.Names = append(reply.Names, c.Name)
			if m.Subtype == 0 {
				continue
			}
			status := int32(pdu.NonLeafStatus)
			if c.Leaf {
				status = pdu.LeafStatus
			}
			reply.Status = append(reply.Status, status)
		}
		return reply, nil
	}
	panic("unreachable")
}
