package session

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/calls"
	"github.com/gopcp/pmcd/daemon/internal/clients"
	"github.com/gopcp/pmcd/daemon/internal/labels"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// lookUpLabels answers LABEL_REQ. The labels of the context are pmcd's own; the others
// come from agents, and clients merge the levels.
func lookUpLabels(c *calls.Caller, b []byte, ofContext func(*clients.Client) (pdu.LabelSet, error), context int32, profileOf func(context int32) *transport.Profile) ([]byte, error) {
	var m pdu.LabelReq
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return nil, pdu.ErrnoIPC
	}
	var domain int
	var unknown pdu.Errno
	switch m.Kind {
	case pdu.LabelContext:
		set, err := ofContext(c.Client)
		if err != nil {
			return nil, err
		}
		return c.Reply(&pdu.Labels{Ident: noIdent, Kind: m.Kind, Sets: []pdu.LabelSet{set}})
	case pdu.LabelDomain:
		domain, unknown = int(m.Ident), pdu.ErrnoNoAgent
	case pdu.LabelInDom, pdu.LabelInstances:
		domain, unknown = pdu.InDom(m.Ident).Domain(), pdu.ErrnoInDom
	case pdu.LabelCluster, pdu.LabelItem:
		domain, unknown = pdu.PMID(m.Ident).Domain(), pdu.ErrnoPMID
	default:
		return nil, pdu.ErrnoType
	}
	profile := profileOf(context)
	if profile == nil {
		profile = allInstances
	}
	call := c.NewCall(context, profile, b)
	answer, err := c.Ask(domain, &call, unknown)
	if err != nil {
		return nil, err
	}
	reply := answer.(*pdu.Labels)
	if len(reply.Sets) > 1 && m.Kind != pdu.LabelInstances {
		reply.Sets = reply.Sets[:1]
		return c.Reply(reply)
	}
	if len(reply.Sets) == 0 && m.Kind == pdu.LabelDomain {
		if a := c.Routes.Agent(domain); knowsNoLabels(a.Conn()) {
			set, err := agentLabel(a.Name())
			if err != nil {
				return nil, err
			}
			reply.Sets = append(reply.Sets, set)
			return c.Reply(reply)
		}
	}
	return c.Answer(), nil
}

// knowsNoLabels reports whether the agent of c is a DSO that is older than labels. In C
// pmcd's process, pmcd adds the label of the domain for these. For newer ones, PCP's
// library does.
func knowsNoLabels(c *agentset.Conn) bool {
	const withLabels = 7 // PMDA_INTERFACE_7
	return c != nil && c.Interface != 0 && c.Interface < withLabels
}

// agentLabel returns the label of the domain for an agent that has none. Its value is the
// name without the parts that PCP's library leaves out, too.
func agentLabel(name string) (pdu.LabelSet, error) {
	value, err := json.Marshal(strings.TrimSuffix(strings.TrimPrefix(name, "pmda"), " DSO"))
	if err != nil {
		return pdu.LabelSet{}, err
	}
	return pdu.NewLabelSet(pdu.NoInst, pdu.LabelDomain, pdu.NamedLabel{Name: "agent", Value: string(value)})
}

// noIdent is the identifier of context labels.
const noIdent = 0xffffffff

// allInstances is the profile of a client that has sent none.
var allInstances = transport.NewProfile(new(pdu.Profile))

// contextLabels returns the labels of the host, with those of the client. It reads the label
// files, and notifies clients if they have changed.
func (s *Server) contextLabels(client *clients.Client) (pdu.LabelSet, error) {
	var own []pdu.NamedLabel
	if container := client.Container.Name(); container != "" {
		own = append(own, labels.Named("container", container, 0))
	}
	if account := client.Account(); account.HasUser {
		own = append(own, labels.Named("groupid", account.GID, pdu.LabelOptional), labels.Named("userid", account.UID, pdu.LabelOptional))
	}
	set, changed, err := s.cfg.Labels.Current(time.Now(), own...)
	if changed {
		s.Notify(pdu.StateLabelChange)
	}
	return set, err
}
