package names

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/daemon/internal/calls"
	"github.com/gopcp/pmcd/internal/relay"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// dynamicChildren relays PMNS_CHILD. An error of the agent is sent
// in a PMNS_NAMES PDU, as C pmcd does.
func (r Request) dynamicChildren(root pmnsload.DynamicRoot, m *pdu.PMNSChild) ([]byte, error) {
	answer, err := r.askName(root, m)
	switch code := calls.Errno(err); code {
	case 0:
	case pdu.ErrnoNoAgent, pdu.ErrnoPMDAFenced:
		return nil, code
	default:
		return r.Calls.Reply(&pdu.PMNSNames{Err: code})
	}
	names := answer.(*pdu.PMNSNames)
	switch {
	case m.Subtype == 0:
		names.Status = nil
	case len(names.Status) < len(names.Names): // clients look at them
		return r.Calls.Reply(&pdu.PMNSNames{Err: pdu.ErrnoIPC})
	}
	return r.Calls.Reply(names)
}

// traverseDynamic answers PMNS_TRAVERSE of a name at or below a dynamic root. If
// the agent is not there, or fenced, the answer for the root is its own name, as
// if it were a leaf. In all other cases an agent that does not give the names is an
// error.
func (r Request) traverseDynamic(root pmnsload.DynamicRoot, m *pdu.PMNSTraverse) ([]byte, error) {
	answer, err := r.askName(root, m)
	switch code := calls.Errno(err); {
	case code == 0:
	case m.Name == root.Name && (code == pdu.ErrnoNoAgent || code == pdu.ErrnoPMDAFenced):
		return r.Calls.Reply(&pdu.PMNSNames{Names: []string{root.Name}})
	default:
		return nil, code
	}
	names := answer.(*pdu.PMNSNames)
	r.dropStrays(root, names)
	switch {
	case names.Err != 0:
		return nil, names.Err
	case len(names.Names) == 0:
		return nil, pdu.ErrnoName
	}
	names.Status = nil
	return r.Calls.Reply(names)
}

// askAhead is the number of requests for dynamic parts of the name space that are sent
// before the first reply is read.
const askAhead = 16

// addNames adds the names of runs to out, asking agents for several
// dynamic roots before it waits for the first. A root whose agent does not give the
// names below it is itself in the list, as if it were a leaf, and the rest is
// complete. PM_ERR_NAME says that there is nothing below the root.
func (r Request) addNames(out *relay.NamesWriter, runs []pmnsload.Stretch) {
	c := r.Calls
	defer c.Reset()
	c.Subs = slices.Grow(c.Subs[:0], askAhead) // calls in progress must not move
	call := c.NewCall(0, nil, nil)
	call.Batched = true
	var unsent [askAhead]error
	for i, run := range runs {
		if i%askAhead == 0 {
			if out.Full() {
				return
			}
			c.Subs = c.Subs[:0]
			for k, run := range runs[i:min(i+askAhead, len(runs))] {
				if p := c.NextSub(); run.Root != nil {
					if p.Req, unsent[k] = pdu.Append(p.Req[:0], 0, &pdu.PMNSTraverse{Name: run.Root.Name}); unsent[k] == nil {
						unsent[k] = c.SendSub(p, run.Root.Domain, &call, false)
					}
				}
			}
		}
		if !out.Full() {
			out.Stretch(run.Wire, run.Names, run.Bytes)
		}
		if run.Root == nil {
			continue
		}
		// Every answer is received, even if it is of no use any more.
		p := &c.Subs[i%askAhead]
		var answer pdu.PMNSNames
		err, asked := unsent[i%askAhead], false
		if err == nil {
			asked = true
			err = c.ReceiveSub(p, func() error {
				// If it cannot be decoded here, a client cannot decode it either.
				if _, err := pdu.ParseInto(p.Reply, &answer); err != nil {
					return p.Conn.ProtocolError(err)
				}
				return nil
			})
		}
		if err == nil && answer.Err != 0 {
			err = answer.Err
		}
		if r.note(*run.Root, err, asked); failedNames(err) {
			out.Name(run.Root.Name)
			continue
		}
		r.dropStrays(*run.Root, &answer)
		for _, name := range answer.Names {
			if out.Full() {
				break
			}
			out.Name(name)
		}
	}
}

// dropStrays leaves out of names, the answer of the agent of a dynamic root to a
// traverse, those that are neither the root's nor below it: they could hide, or
// pass for, names of others.
func (r Request) dropStrays(root pmnsload.DynamicRoot, names *pdu.PMNSNames) {
	n := len(names.Names)
	names.Names = slices.DeleteFunc(names.Names, func(name string) bool { return !atOrBelow(root.Name, name) })
	if n -= len(names.Names); n > 0 {
		from := "the agent of domain {domain}"
		attrs := []any{"domain", root.Domain, "names", n, "root", root.Name}
		if a := r.Calls.Routes.Agent(root.Domain); a != nil {
			from = "agent {agent:q} (dom {domain})"
			attrs = append(attrs, "agent", a.Name())
		}
		r.Calls.Config.Limiter.Warn(fmt.Sprint("stray names ", root.Domain), "PMNS: "+from+" gave {names} names that are not below {root:q}; they are left out", attrs...)
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
func (r Request) askName(root pmnsload.DynamicRoot, req pdu.Message) (m pdu.Message, err error) {
	c := r.Calls
	if c.Req, err = pdu.Append(c.Req[:0], 0, req); err != nil {
		return nil, err
	}
	a, conn, err := c.Available(root.Domain, false)
	if err != nil {
		r.note(root, err, false)
		return nil, err
	}
	defer conn.Release()
	call := c.NewCall(0, nil, c.Req)
	m, err = c.AskAgent(a, conn, &call)
	if t, ok := req.(*pdu.PMNSTraverse); ok && t.Name == root.Name {
		answer := err
		if names, ok := m.(*pdu.PMNSNames); ok && err == nil && names.Err != 0 {
			answer = names.Err
		}
		r.note(root, answer, true)
	} else if errors.Is(err, transport.ErrLate) || errors.Is(err, transport.ErrNotReady) {
		r.note(root, err, false)
	}
	if errors.Is(err, transport.ErrLate) {
		err = pdu.ErrnoNoAgent
	}
	return m, err
}

// note notes what became of a request for the names of a dynamic root: err
// is what the agent has answered or, unless it was asked, why not.
func (r Request) note(root pmnsload.DynamicRoot, err error, asked bool) {
	if !failedNames(err) {
		r.Missing.answered(r.Calls.Client, subtree{root.Domain, root.Name})
		return
	}
	a := r.Calls.Routes.Agent(root.Domain)
	name := "domain {domain}"
	attrs := []any{"domain", root.Domain, "root", root.Name}
	if a != nil {
		name = "agent {agent:q} (dom {domain})"
		attrs = append(attrs, "agent", a.Name())
	}
	key := subtree{domain: root.Domain}
	var why reason
	var text string
	switch {
	case errors.Is(err, transport.ErrNotReady):
		why, text, asked = notReady, "is not ready", false
	case errors.Is(err, transport.ErrLate):
		why, text = late, "has not answered in time"
	case asked:
		why, text = failed, fmt.Sprintf("failed: %v", calls.Errno(err))
	case a == nil:
		why, text = noAgent, "has no agent"
	case errors.Is(err, pdu.ErrnoPMDAFenced):
		why, text = fenced, "is fenced"
	default:
		why, text = down, "is down"
	}
	if asked {
		key.root = root.Name
	}
	if r.Missing.miss(r.Calls.Client, key, why) {
		attrs = append(attrs, "error", text)
		r.Calls.Config.Limiter.Warn(fmt.Sprint("names ", root.Domain, why), "PMNS: names below {root:q} are missing: "+name+" {error}; clients are notified when they are back", attrs...)
	}
}
