package session

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/pdu"
)

// labels answers LABEL_REQ. The labels of the host are pmcd's own; the others
// come from agents, and clients merge the levels.
func (r request) labels(b []byte) error {
	var m pdu.LabelReq
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return r.fail(pdu.ErrnoIPC)
	}
	var domain int
	var unknown pdu.Errno
	switch m.Kind {
	case pdu.LabelContext:
		set, err := r.contextLabels()
		if err != nil {
			return r.fail(errnoOf(err))
		}
		return r.reply(&pdu.Labels{Ident: noIdent, Kind: m.Kind, Sets: []pdu.LabelSet{set}})
	case pdu.LabelDomain:
		domain, unknown = int(m.Ident), pdu.ErrnoNoAgent
	case pdu.LabelInDom, pdu.LabelInstances:
		domain, unknown = pdu.InDom(m.Ident).Domain(), pdu.ErrnoInDom
	case pdu.LabelCluster, pdu.LabelItem:
		domain, unknown = pdu.PMID(m.Ident).Domain(), pdu.ErrnoPMID
	default:
		return r.fail(pdu.ErrnoType)
	}
	profile := r.contexts.get(r.contexts.current)
	if profile == nil {
		profile = allInstances
	}
	answer, err := r.ask(domain, profile, b, unknown)
	if err != nil {
		return r.fail(errnoOf(err))
	}
	reply := answer.(*pdu.Labels)
	if len(reply.Sets) > 1 && m.Kind != pdu.LabelInstances {
		reply.Sets = reply.Sets[:1]
		return r.reply(reply)
	}
	if len(reply.Sets) == 0 && m.Kind == pdu.LabelDomain {
		if a := r.routes.Agent(domain); knowsNoLabels(a.Conn()) {
			set, err := agentLabel(a.Name())
			if err != nil {
				return r.fail(errnoOf(err))
			}
			reply.Sets = append(reply.Sets, set)
			return r.reply(reply)
		}
	}
	pdu.SetFrom(r.ans, 0)
	return r.write(r.ans)
}

// knowsNoLabels reports whether the agent of c is a DSO older than labels. In C pmcd's
// process those have the label of their domain from pmcd, newer ones from
// PCP's library.
func knowsNoLabels(c *agentset.Conn) bool {
	const withLabels = 7 // PMDA_INTERFACE_7
	return c != nil && c.Interface != 0 && c.Interface < withLabels
}

// agentLabel is the label of the domain of an agent that has none: the name,
// without what PCP's library would leave out of it too.
func agentLabel(name string) (pdu.LabelSet, error) {
	value, err := json.Marshal(strings.TrimSuffix(strings.TrimPrefix(name, "pmda"), " DSO"))
	if err != nil {
		return pdu.LabelSet{}, err
	}
	return pdu.NewLabelSet(pdu.NoInst, pdu.LabelDomain, pdu.NamedLabel{Name: "agent", Value: string(value)})
}

// noIdent is what context labels are about.
const noIdent = 0xffffffff

// allInstances is the profile of a client that has sent none.
var allInstances = new(pdu.Profile)

// contextLabels are the labels of the host: those in the files, those that
// pmcd knows of the host and, optional ones, of the client.
func (r request) contextLabels() (pdu.LabelSet, error) {
	if r.srv.RefreshLabels() {
		r.srv.Notify(pdu.StateLabelChange)
	}
	files, err := r.srv.labels.get()
	if err != nil {
		return pdu.LabelSet{}, err
	}
	byName := make(map[string]hostLabel)
	for _, l := range files {
		flags := pdu.LabelKind(0)
		if l.Optional {
			flags |= pdu.LabelOptional
		}
		if strings.Contains(l.Name, ".") {
			flags |= pdu.LabelCompound
		}
		byName[l.Name] = hostLabel{pdu.NamedLabel{Name: l.Name, Value: string(l.Value), Flags: flags}, l.File}
	}
	add := func(flags pdu.LabelKind, name string, value any) {
		text, err := json.Marshal(value)
		if err == nil {
			byName[name] = hostLabel{pdu.NamedLabel{Name: name, Value: string(text), Flags: flags}, ""}
		}
	}
	add(0, "hostname", r.srv.hostname.current())
	add(0, "domainname", domainName())
	name, id := r.srv.labels.machineID()
	add(0, name, id)
	if name := r.container.current(); name != "" {
		add(0, "container", name)
	}
	if p := r.conn.Peer(); p.Unix {
		add(pdu.LabelOptional, "groupid", p.GID)
		add(pdu.LabelOptional, "userid", p.UID)
	}
	return r.srv.labels.set(slices.Collect(maps.Values(byName)))
}
