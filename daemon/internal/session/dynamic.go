package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// dynamicChildren relays PMNS_CHILD. What the agent does not answer is told
// in a PMNS_NAMES PDU, as C pmcd does.
func (r nameRequest) dynamicChildren(root pmnsload.DynamicRoot, m *pdu.PMNSChild) error {
	answer, err := r.askName(root, m)
	switch code := errnoOf(err); code {
	case 0:
	case pdu.ErrnoNoAgent, pdu.ErrnoPMDAFenced:
		return r.fail(code)
	default:
		return r.reply(&pdu.PMNSNames{Err: code})
	}
	names := answer.(*pdu.PMNSNames)
	switch {
	case m.Subtype == 0:
		names.Status = nil
	case len(names.Status) < len(names.Names): // clients look at them
		return r.reply(&pdu.PMNSNames{Err: pdu.ErrnoIPC})
	}
	return r.reply(names)
}

// traverseDynamic answers PMNS_TRAVERSE of a name at or below a dynamic root. If
// the agent is not there, or fenced, the answer for the root is its own name, as
// if it were a leaf. In all other cases an agent that cannot tell the names is an
// error.
func (r nameRequest) traverseDynamic(root pmnsload.DynamicRoot, m *pdu.PMNSTraverse) error {
	answer, err := r.askName(root, m)
	switch code := errnoOf(err); {
	case code == 0:
	case m.Name == root.Name && (code == pdu.ErrnoNoAgent || code == pdu.ErrnoPMDAFenced):
		return r.reply(&pdu.PMNSNames{Names: []string{root.Name}})
	default:
		return r.fail(code)
	}
	names := answer.(*pdu.PMNSNames)
	r.dropStrays(root, names)
	switch {
	case names.Err != 0:
		return r.fail(names.Err)
	case len(names.Names) == 0:
		return r.fail(pdu.ErrnoName)
	}
	names.Status = nil
	return r.reply(names)
}

// askAhead is the number of requests for dynamic parts of the name space that are sent
// before the first reply is read.
const askAhead = 16

// addNames adds the names of runs to r.namesOut, asking agents for several
// dynamic roots before it waits for the first. A root whose agent cannot tell the
// names below it is itself in the list, as if it were a leaf, and the rest is
// complete. PM_ERR_NAME says that there is nothing below the root.
func (r nameRequest) addNames(runs []pmnsload.Stretch) {
	defer r.reset()
	r.subs = slices.Grow(r.subs[:0], askAhead) // calls in progress must not move
	call := transport.Call{
		Origin:  agents.Origin{Client: r.client.Num},
		Timeout: r.srv.cfg.RequestTimeout(),
		Batched: true,
	}
	var unsent [askAhead]error
	for i, run := range runs {
		if i%askAhead == 0 {
			if r.namesOut.Full() {
				return
			}
			r.subs = r.subs[:0]
			for k, run := range runs[i:min(i+askAhead, len(runs))] {
				if p := r.nextSub(); run.Root != nil {
					unsent[k] = r.sendTraverse(p, run.Root, &call)
				}
			}
		}
		if !r.namesOut.Full() {
			r.namesOut.Stretch(run.Wire, run.Names, run.Bytes)
		}
		if run.Root == nil {
			continue
		}
		// Every answer is received, even if it is of no use any more.
		p := &r.subs[i%askAhead]
		var answer pdu.PMNSNames
		err, asked := unsent[i%askAhead], false
		if err == nil {
			err, asked = r.receiveMessage(p, &answer), true
		}
		if err == nil && answer.Err != 0 {
			err = answer.Err
		}
		if r.noteNames(*run.Root, err, asked); failedNames(err) {
			r.namesOut.Name(run.Root.Name)
			continue
		}
		r.dropStrays(*run.Root, &answer)
		for _, name := range answer.Names {
			if r.namesOut.Full() {
				break
			}
			r.namesOut.Name(name)
		}
	}
}

// sendTraverse asks for the names at or below a dynamic root.
func (r nameRequest) sendTraverse(p *subrequest, root *pmnsload.DynamicRoot, call *transport.Call) (err error) {
	if p.req, err = pdu.Append(p.req[:0], 0, &pdu.PMNSTraverse{Name: root.Name}); err != nil {
		return err
	}
	return r.sendSub(p, root.Domain, call)
}

// dropStrays leaves out of names, the answer of the agent of a dynamic root to a
// traverse, those that are neither the root's nor below it: they could hide, or
// pass for, names of others.
func (r nameRequest) dropStrays(root pmnsload.DynamicRoot, names *pdu.PMNSNames) {
	n := len(names.Names)
	names.Names = slices.DeleteFunc(names.Names, func(name string) bool { return !atOrBelow(root.Name, name) })
	if n -= len(names.Names); n > 0 {
		from := "the agent of domain {domain}"
		attrs := []any{"domain", root.Domain, "names", n, "root", root.Name}
		if a := r.routes.Agent(root.Domain); a != nil {
			from = "agent {agent:q} (dom {domain})"
			attrs = append(attrs, "agent", a.Name())
		}
		r.srv.cfg.Limiter.Warn(fmt.Sprint("stray names ", root.Domain), "PMNS: "+from+" gave {names} names that are not below {root:q}; they are left out", attrs...)
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
func (r nameRequest) askName(root pmnsload.DynamicRoot, req pdu.Message) (m pdu.Message, err error) {
	if r.req, err = pdu.Append(r.req[:0], 0, req); err != nil {
		return nil, err
	}
	a, c, err := r.available(root.Domain)
	if err != nil {
		r.noteNames(root, err, false)
		return nil, err
	}
	defer c.Release()
	m, err = r.askAgent(a, c, nil, r.req)
	if t, ok := req.(*pdu.PMNSTraverse); ok && t.Name == root.Name {
		answer := err
		if names, ok := m.(*pdu.PMNSNames); ok && err == nil && names.Err != 0 {
			answer = names.Err
		}
		r.noteNames(root, answer, true)
	} else if errors.Is(err, transport.ErrLate) || errors.Is(err, transport.ErrNotReady) {
		r.noteNames(root, err, false)
	}
	if errors.Is(err, transport.ErrLate) {
		err = pdu.ErrnoNoAgent
	}
	return m, err
}

// noteNames notes what became of a request for the names of a dynamic root: err
// is what the agent has answered or, unless it was asked, why not.
func (r nameRequest) noteNames(root pmnsload.DynamicRoot, err error, asked bool) {
	t := &r.srv.subtrees
	if !failedNames(err) {
		t.answered(r.client, subtree{root.Domain, root.Name})
		return
	}
	a := r.routes.Agent(root.Domain)
	name := "domain {domain}"
	attrs := []any{"domain", root.Domain, "root", root.Name}
	if a != nil {
		name = "agent {agent:q} (dom {domain})"
		attrs = append(attrs, "agent", a.Name())
	}
	key := subtree{domain: root.Domain}
	var kind gapKind
	var why string
	switch {
	case errors.Is(err, transport.ErrNotReady):
		kind, why, asked = gapNotReady, "is not ready", false
	case errors.Is(err, transport.ErrLate):
		kind, why = gapLate, "has not answered in time"
	case asked:
		kind, why = gapFailed, fmt.Sprintf("failed: %v", errnoOf(err))
	case a == nil:
		kind, why = gapAbsent, "has no agent"
	case errors.Is(err, pdu.ErrnoPMDAFenced):
		kind, why = gapFenced, "is fenced"
	default:
		kind, why = gapDown, "is down"
	}
	if asked {
		key.root = root.Name
	}
	if t.miss(r.client, key, kind) {
		attrs = append(attrs, "error", why)
		r.srv.cfg.Limiter.Warn(fmt.Sprint("names ", root.Domain, kind), "PMNS: names below {root:q} are missing: "+name+" {error}; clients are told when they are back", attrs...)
	}
}
