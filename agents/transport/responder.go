package transport

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// A Responder answers request PDUs by calling an Agent. [Inline], [Local] and
// wire.Serve all have one, so an agent in process and the same agent behind a
// stream cannot be told apart. It is used by one goroutine at a time.
type Responder struct {
	Agent agents.Agent
	Max   int // largest answer to a fetch, in bytes; 0 is 16 MiB

	fetch pdu.Fetch // the last one; its memory is used again
	req   agents.FetchRequest
	w     pdu.ResultWriter
}

// maxAnswer is Responder.Max by default. A request of 64 KiB can ask thousands of
// times for the metric with the most instances; others wait while that is
// answered, and the process, pmcd's or the PMDA's, has the answer in memory.
const maxAnswer = 16 << 20

var noProfile = new(pdu.Profile) // all instances

// Reply appends to dst the reply to c.Req. What the Agent has to say, its
// errors included, is in the reply; an error of Reply's own means that c.Req
// is not a request that an agent gets.
func (r *Responder) Reply(ctx context.Context, c *Call, dst []byte) ([]byte, error) {
	_, t, _ := pdu.Header(c.Req)
	if t == pdu.TypeFetch {
		return r.replyFetch(ctx, c, dst)
	}
	_, m, err := pdu.Parse(c.Req)
	if err != nil {
		return dst, err
	}
	reply, err := r.call(ctx, c, m)
	if err == nil {
		var b []byte
		if b, err = pdu.Append(dst, 0, reply); err == nil {
			return b, nil
		}
	}
	return appendError(dst, err)
}

func appendError(dst []byte, err error) ([]byte, error) {
	return pdu.Append(dst, 0, &pdu.Error{Code: pdu.ErrnoOf(err)})
}

func (r *Responder) replyFetch(ctx context.Context, c *Call, dst []byte) ([]byte, error) {
	if _, err := pdu.ParseInto(c.Req, &r.fetch); err != nil {
		return dst, err
	}
	profile := c.Profile
	if profile == nil {
		profile = noProfile
	}
	// The context of the profile may be another's: one that hides nothing serves all.
	from := agents.Origin{Client: c.Origin.Client, Context: r.fetch.Context}
	r.req = agents.FetchRequest{Origin: from, PMIDs: r.fetch.PMIDs, Profile: profile}
	r.w.Limit(cmp.Or(r.Max, maxAnswer))
	defer func() {
		if r.w.Cap() > 64<<10 { // dst is the caller's, and a copy is not for keeps
			r.w = pdu.ResultWriter{}
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

// call turns a request into a call of the Agent's, and what that returns into
// the reply. Without the optional interface for it the error is the one that
// libpcp_pmda's defaults give (PMDA(3)).
func (r *Responder) call(ctx context.Context, c *Call, m pdu.Message) (pdu.Message, error) {
	o := c.Origin
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
		if m.Kind == pdu.LabelInstances && c.Profile != nil {
			sets = wanted(sets, c.Profile.For(pdu.InDom(m.Ident)))
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
	return nil, pdu.ErrnoIPC // as libpcp_pmda says to a PDU it has no use for
}

// wanted returns the sets of the instances in a profile (pmdaLabel(3)). The slice
// may be the Agent's, and is not changed.
func wanted(all []pdu.LabelSet, p pdu.InDomProfile) (sets []pdu.LabelSet) {
	for _, s := range all {
		if s.Inst == pdu.NoInst || p.Includes(s.Inst) {
			sets = append(sets, s)
		}
	}
	return sets
}

// instance answers the three forms of INSTANCE_REQ from the list of all
// (pmGetInDom(3), pmLookupInDom(3), pmNameInDom(3)). A name without blanks
// stands for one that goes on after it with a blank, too (pmdaInstance(3)).
func (r *Responder) instance(ctx context.Context, o agents.Origin, m *pdu.InstanceReq) (pdu.Message, error) {
	a, ok := r.Agent.(agents.Instancer)
	if !ok {
		return nil, pdu.ErrnoInDom
	}
	all, err := a.Instances(ctx, o, m.InDom)
	if err != nil {
		return nil, err
	}
	reply := &pdu.Instance{InDom: m.InDom}
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
