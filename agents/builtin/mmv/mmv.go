// Package mmv is the agent for metrics that applications write into files, mmv(5). It
// serves the files of a directory as PCP's pmdammv does, with the same names, PMIDs,
// instances, labels and texts, as two agents:
//
//	mmv      domain 70, the files in $PCP_TMP_DIR/mmv
//	pmproxy  domain 4, the files in $PCP_TMP_DIR/pmproxy, which pmproxy(1) writes
//
// # Files are hostile input
//
// A user who may write to the directory can write anything into its files, at any time.
// Each offset, count and code is checked. A file is read with pread(2) and never
// mapped: a file that shrinks is not a SIGBUS, and one in a file system that does not
// reply holds up this agent and not the process, as a page fault would. What one file
// and all files together may cost in time and memory is limited: see limits.go.
//
// A file is open only while it is read, and only one is: the agent takes one descriptor
// for any number of files.
//
// # Changes
//
// The agent reads the directory again if it has changed (see changes.go). Files that
// have not changed are not read again. A value is read from its file for each fetch.
//
// Comments that start with "C differs" say what pmdammv does otherwise.
package mmv

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/mmvformat"
	"github.com/gopcp/pmcd/pdu"
)

// Options configure an agent. The zero value is the agent mmv of this host.
type Options struct {
	// Name is the root of the metrics' names, and the name of the directory: "mmv",
	// which is the default, or "pmproxy".
	Name string

	// Dir is the directory of the files; "" is Name in $PCP_TMP_DIR, and in
	// /var/lib/pcp/tmp if that is not set.
	Dir string

	// Debug has the debug options that are set (pmdbg(1)). With appl0, each reload is
	// logged.
	Debug []string

	// Log gets messages about files; nil is slog.Default.
	Log *slog.Logger
}

// New returns the agent mmv for this host.
func New(domain int) (agents.Agent, error) { return Open(domain, Options{}) }

// NewPMProxy returns the agent pmproxy for this host.
func NewPMProxy(domain int) (agents.Agent, error) { return Open(domain, Options{Name: "pmproxy"}) }

// Open returns an agent with options. The first request reads the files: that may wait for a file
// system, and a request has a timeout.
func Open(domain int, o Options) (agents.Agent, error) {
	a, err := open(domain, o)
	if err != nil {
		return nil, err
	}
	return a, nil
}

func open(domain int, o Options) (*agent, error) {
	o.Name = cmp.Or(o.Name, "mmv")
	if o.Dir == "" {
		var err error
		if o.Dir, err = mmvformat.Dir(o.Name); err != nil {
			return nil, err
		}
	}
	a := &agent{
		name:   o.Name,
		dir:    o.Dir,
		domain: domain,
		debug:  slices.Clone(o.Debug),
		log:    complaints{log: cmp.Or(o.Log, slog.Default()), agent: o.Name, domain: domain},
		now:    time.Now,
	}
	a.index = a.build(nil)
	return a, nil
}

// An agent implements [agents.Agent] and the optional interfaces.
type agent struct {
	name   string
	dir    string
	domain int
	debug  []string
	log    complaints
	now    func() time.Time

	// What the directory has: see changes.go.
	*index
	entries map[string]*entry // by name
	poll    []*entry          // the files to poll, those in flux first
	inFlux  int               // the first entries of poll that are in flux
	next    [2]int            // where the next poll of each kind begins
	started bool              // the directory has been read once
	seen    dirState
	reload  int32 // mmv.control.reload
	forced  bool  // by a store into it
	changed bool  // the next fetch tells clients that names have changed
	budget  budget

	in    source   // reused
	whole []byte   // reused, for load
	fetch fetching // reused
}

var (
	_ agents.Instancer = (*agent)(nil)
	_ agents.Texter    = (*agent)(nil)
	_ agents.Storer    = (*agent)(nil)
	_ agents.Namer     = (*agent)(nil)
	_ agents.Labeler   = (*agent)(nil)
)

// Desc implements [agents.Agent].
func (a *agent) Desc(ctx context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	if c := a.control(id); c != nil {
		return c.desc(id), a.refresh(ctx, false)
	}
	m, err := a.find(ctx, id)
	if err != nil {
		return pdu.Desc{}, err
	}
	return m.desc(id, a.indom(id.Cluster(), m.serial)), nil
}

// find returns the metric with a PMID: that of the first file that has it. It looks for
// changes before.
//
// C differs: if several files have the same cluster and item, the values are of the
// first file and the descriptor is of the last.
func (a *agent) find(ctx context.Context, id pdu.PMID) (*metric, error) {
	if err := a.refresh(ctx, false); err != nil {
		return nil, err
	}
	for range maxRetries {
		f, m := a.metric(id)
		var changed bool
		var err error
		if m == nil {
			changed, err = a.pollAll(ctx)
		} else {
			changed, err = a.recheck(ctx, f)
		}
		switch {
		case err != nil:
			return nil, err
		case !changed && m == nil:
			return nil, pdu.ErrnoPMID
		case !changed:
			return m, nil
		}
	}
	return nil, pdu.ErrnoAgain
}

// Instances implements [agents.Instancer].
func (a *agent) Instances(ctx context.Context, _ agents.Origin, id pdu.InDom) ([]pdu.Inst, error) {
	if err := a.refresh(ctx, true); err != nil {
		return nil, err
	}
	d := a.indoms[id.Serial()]
	if d == nil || id.Domain() != a.domain {
		return nil, pdu.ErrnoInDom
	}
	return d.insts, nil
}

// PMID implements [agents.Namer].
func (a *agent) PMID(ctx context.Context, _ agents.Origin, name string) (pdu.PMID, error) {
	if err := a.refresh(ctx, false); err != nil {
		return pdu.NoPMID, err
	}
	for range maxRetries {
		n := a.root.find(name)
		var changed bool
		var err error
		switch {
		case n == nil || !n.leaf:
			changed, err = a.pollAll(ctx)
		case n.file != nil:
			changed, err = a.recheck(ctx, n.file)
		}
		switch {
		case err != nil:
			return pdu.NoPMID, err
		case changed:
		case n == nil || !n.leaf:
			return pdu.NoPMID, pdu.ErrnoName // also for a name that is not a leaf, as in C
		default:
			return n.pmid(a.domain), nil
		}
	}
	return pdu.NoPMID, pdu.ErrnoAgain
}

// Names implements [agents.Namer].
func (a *agent) Names(ctx context.Context, _ agents.Origin, id pdu.PMID) ([]string, error) {
	if c := a.control(id); c != nil {
		return []string{a.name + ".control." + c.name}, a.refresh(ctx, false)
	}
	if _, err := a.find(ctx, id); err != nil {
		return nil, err
	}
	var names []string
	for _, f := range a.clusters[id.Cluster()] {
		if m := f.item(id.Item()); m != nil && m.named {
			names = append(names, m.name)
		}
	}
	if len(names) == 0 {
		return nil, pdu.ErrnoPMID
	}
	return names, nil
}

// Children implements [agents.Namer].
func (a *agent) Children(ctx context.Context, _ agents.Origin, name string) ([]pdu.Child, error) {
	if err := a.refresh(ctx, true); err != nil {
		return nil, err
	}
	n := a.root.find(name)
	if n == nil {
		return nil, pdu.ErrnoName
	}
	list := make([]pdu.Child, 0, len(n.children))
	for i, c := range slices.Backward(n.children) {
		if err := a.ended(ctx, i); err != nil {
			return nil, err
		}
		list = append(list, pdu.Child{Name: c.name, Leaf: c.leaf})
	}
	return list, nil
}

// Traverse implements [agents.Namer].
func (a *agent) Traverse(ctx context.Context, _ agents.Origin, name string) ([]string, error) {
	if err := a.refresh(ctx, true); err != nil {
		return nil, err
	}
	n := a.root.find(name)
	if n == nil {
		return nil, pdu.ErrnoName
	}
	var list []string
	err := n.leaves(name, func(name string) error {
		list = append(list, name)
		return a.ended(ctx, len(list))
	})
	return list, err
}

// ended is called for the i-th of many items.
func (a *agent) ended(ctx context.Context, i int) error {
	if i%64 != 0 {
		return nil
	}
	return ctx.Err()
}

// isName reports whether s, with the prefix, can be the name of a metric.
//
// C differs: it accepts names with empty components.
func isName(s string) bool {
	if s == "" || strings.Contains(s, "..") || s[0] == '.' || s[len(s)-1] == '.' {
		return false
	}
	for _, c := range []byte(s) {
		if letter := c|0x20 >= 'a' && c|0x20 <= 'z'; !letter && (c < '0' || c > '9') && c != '_' && c != '.' {
			return false
		}
	}
	return true
}
