// Package pmcd is the agent of domain 2. Its metrics, pmcd.*, are about the
// collector daemon itself: its agents and clients, the PDUs that it has sent and
// received, its settings, which can be changed by a store, and the pmlogger and pmie
// processes of the host.
//
// The agent reads the daemon's state through a [Host], so it is always built in. Its
// methods may be called by several goroutines at a time (transport.Inline). A fetch
// works on copies of what it needs, which it makes once, and holds no lock
// meanwhile.
//
// PMIDs, types and instances are those of PCP 7.2.1, because clients know several
// PMIDs by number. Values that describe the internals of the C program
// (pmcd.datasize, pmcd.openfds, pmcd.buf.*) have the nearest equivalent in a Go
// program, as their help texts say.
package pmcd

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/internal/zone"
	"github.com/gopcp/pmcd/pdu"
)

// A Config says which files the Agent reads. A path that is empty is not read.
type Config struct {
	RunDir      string // PCP_RUN_DIR: has the files pmproxy.pid and pmie.pid
	TmpDir      string // PCP_TMP_DIR: has the directories pmlogger and pmie
	LocalTime   string // the time zone of the host, /etc/localtime
	ZoneInfoDir string // all time zones, /usr/share/zoneinfo
	Build       string // value of pmcd.build
}

// An Agent serves pmcd.*. Several goroutines may call its methods at a time.
type Agent struct {
	domain int
	name   string
	host   Host
	config Config

	zone      *zone.Zone
	usage     *usage
	registers [numRegisters]atomic.Int32 // pmcd.control.register
	files     slots                      // held while files are read
	storing   sync.Mutex                 // held during a store; locked before those that the Host locks

	mu   sync.Mutex // guards the following
	free []*fetch   // for reuse
}

// New returns the agent for a domain, normally 2. name is the agent's name in
// pmcd.conf.
func New(domain int, name string, h Host, c Config) *Agent {
	a := &Agent{domain: domain, name: name, host: h, config: c}
	a.zone = zone.New(c.LocalTime, c.ZoneInfoDir)
	a.usage = newUsage()
	a.files = make(slots, maxReaders)
	return a
}

var (
	_ agents.Agent        = (*Agent)(nil)
	_ agents.Instancer    = (*Agent)(nil)
	_ agents.Texter       = (*Agent)(nil)
	_ agents.Storer       = (*Agent)(nil)
	_ agents.Labeler      = (*Agent)(nil)
	_ agents.ContextEnder = (*Agent)(nil)
)

// Desc implements [agents.Agent].
func (a *Agent) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	m := a.metric(id)
	if m == nil {
		return pdu.Desc{}, pdu.ErrnoPMID
	}
	d := pdu.Desc{PMID: id, ValueType: m.typ, InDom: pdu.NoInDom, Sem: m.sem, Units: m.units}
	if m.indom != 0 {
		d.InDom = pdu.NewInDom(a.domain, m.indom)
	}
	return d, nil
}

// metric returns the metric that id names, or nil.
func (a *Agent) metric(id pdu.PMID) *metric {
	if id.Domain() != a.domain || id.Cluster() >= len(clusters) {
		return nil
	}
	c := clusters[id.Cluster()]
	if id.Item() >= len(c) || c[id.Item()].name == "" {
		return nil
	}
	return &c[id.Item()]
}

// Labels implements [agents.Labeler]. The only label is "agent", which pmcd also adds
// for agents that have no labels.
func (a *Agent) Labels(_ context.Context, _ agents.Origin, kind pdu.LabelKind, _ uint32) ([]pdu.LabelSet, error) {
	if kind != pdu.LabelDomain {
		return nil, nil
	}
	value, err := json.Marshal(a.name)
	if err != nil {
		return nil, err
	}
	set, err := pdu.NewLabelSet(pdu.NoInst, kind, pdu.NamedLabel{Name: "agent", Value: string(value)})
	if err != nil {
		return nil, err
	}
	return []pdu.LabelSet{set}, nil
}

// EndContext implements [agents.ContextEnder].
func (a *Agent) EndContext(client int32) { a.usage.forget(client) }
