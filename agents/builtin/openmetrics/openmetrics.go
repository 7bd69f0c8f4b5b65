// Package openmetrics is the agent for pages of metrics in the formats of Prometheus and OpenMetrics,
// which exporters serve over HTTP. It does what PCP's pmdaopenmetrics(1), a Python program, does, with
// the same names, PMIDs, instances, labels and texts. Each file in a directory is a source: a *.url
// file with a URL, or a script that prints a page.
//
// # Numbers
//
// A source is a cluster, a metric of it an item. Its series are instances, which have names made of
// their labels. All are numbered in the order in which they are first seen, and the numbers are saved
// in the files that PCP's agent reads and writes, so that either can take the place of the other.
// See table.go and pickle.go.
//
// # Reads
//
// A fetch reads the sources of the metrics that it names, at the same time, and nothing is kept for
// the next one. A read has a time limit. If a source did not reply in time, the next requests start a
// read, but do not wait for it longer than for their other sources: so a source that hangs costs
// others nothing. When a read succeeds, requests wait for the source again.
//
// # Pages are hostile input
//
// What a page may cost is limited: see limits.go. A page of an exporter that fails has no values, and
// no effect on numbers.
//
// Comments that start with "C differs" say what PCP's agent does otherwise.
package openmetrics

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/nametree"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
)

// Domain is the number of openmetrics in PCP's list (stdpmid).
const Domain = 144

// Options configure an agent. The zero value is that of PCP.
type Options struct {
	Root      string        // of the names of metrics; "" is openmetrics
	Dir       string        // of sources; "" is config.d. It is relative to $PCP_PMDAS_DIR/Root
	Timeout   time.Duration // of a read; 0 is 2 seconds
	NoSort    bool          // number new sources in the order of the directory
	NoScripts bool          // ignore scripts
	Debug     bool          // openmetrics.control.debug
	Log       *slog.Logger  // nil is slog.Default
}

// Open returns an agent. [Prepare] reads its sources for the first time.
func Open(domain int, o Options) (agents.Agent, error) { return open(domain, o), nil }

func open(domain int, o Options) *agent {
	root := cmp.Or(o.Root, "openmetrics")
	dir := cmp.Or(o.Dir, "config.d")
	if !filepath.IsAbs(dir) {
		pmdas, _ := pcpconf.Dir("PCP_PMDAS_DIR")
		dir = filepath.Join(pmdas, root, dir)
	}
	vars, _ := pcpconf.Dir("PCP_VAR_DIR")
	a := &agent{
		domain: domain, root: root, dir: filepath.Clean(dir), log: cmp.Or(o.Log, slog.Default()), debug: o.Debug,
		noSort: o.NoSort, noScripts: o.NoScripts,
		timeout:   cmp.Or(o.Timeout, 2*time.Second),
		savedDir:  filepath.Join(vars, "config", "pmda"),
		transport: newTransport(),
		maxPage:   maxPage,
		slots:     make(chan struct{}, maxReads),
		byCluster: make(map[int]*source),
		complain:  make(map[string]bool),
	}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	a.clusters = newTable(a.savedDir, domain, 0, maxSources+1)
	a.clusters.recheck(noLock{})
	a.addControl()
	return a
}

// An agent implements [agents.Agent] and the optional interfaces.
type agent struct {
	domain    int
	root      string
	dir       string // of sources
	savedDir  string // of numbers
	timeout   time.Duration
	noSort    bool
	noScripts bool
	debug     bool
	log       *slog.Logger
	transport *http.Transport
	maxPage   int64 // bytes of a page, which tests change

	ctx    context.Context // of reads
	cancel context.CancelFunc
	slots  chan struct{} // of reads at the same time

	clusters  *table    // numbers of sources
	saved     time.Time // when they were written
	saveErr   error     // why they are not saved
	sources   []*source
	byCluster map[int]*source
	names     nametree.Tree
	changed   bool // the next fetch tells clients that names have changed
	scanned   time.Time
	complain  map[string]bool // what has been logged about files of dir
}

var (
	_ agents.Instancer = (*agent)(nil)
	_ agents.Texter    = (*agent)(nil)
	_ agents.Storer    = (*agent)(nil)
	_ agents.Namer     = (*agent)(nil)
	_ agents.Labeler   = (*agent)(nil)
)

// Close implements io.Closer. It ends all reads, and scripts.
func (a *agent) Close() error {
	a.cancel()
	var wait sync.WaitGroup
	for _, s := range a.sources {
		s.mu.Lock()
		r := s.running
		s.mu.Unlock()
		if r != nil && s.script { // others hold nothing but memory
			wait.Go(func() { <-r.done })
		}
	}
	wait.Wait()
	a.transport.CloseIdleConnections()
	return nil
}

// Prepare reads all sources of an agent that [Open] has returned, so that their metrics have names.
// A read may take ten times as long as another one, but Prepare does not wait longer than for others.
func Prepare(ctx context.Context, ag agents.Agent) {
	a := ag.(*agent)
	a.scan()
	a.read(ctx, a.sources, 10*a.timeout)
}

// read reads sources, each for up to limit. It waits until that is done or the time limit of the agent
// has passed. It does not wait for a source whose last read has not ended in time.
func (a *agent) read(ctx context.Context, sources []*source, limit time.Duration) {
	t := time.NewTimer(a.timeout)
	defer t.Stop()
	type started struct {
		r    *reading
		hung bool
	}
	var list []started
	for _, s := range sources {
		hung := s.isHung()
		list = append(list, started{s.start(a.ctx, a.slots, limit), hung})
	}
	for _, l := range list {
		if l.hung {
			continue // there is no wait for it
		}
		select {
		case <-l.r.done:
		case <-t.C:
			t.Reset(0)
		case <-ctx.Done():
		}
	}
	for _, s := range sources {
		a.adopt(s)
	}
}

// adopt gives names to the metrics that a read has found.
func (a *agent) adopt(s *source) {
	s.mu.Lock()
	var leftOut []*metric
	var errs []error
	for _, m := range s.fresh {
		if m.old != nil && m.old.named {
			a.names.Remove(m.old.name)
			a.changed = true
		}
		m.old = nil
		if err := a.addName(m.name, a.pmid(s, m)); err != nil {
			leftOut, errs = append(leftOut, m), append(errs, err)
			continue
		}
		m.named = true
		a.changed = true
	}
	fresh := s.fresh
	s.fresh = nil
	s.mu.Unlock()
	for _, m := range fresh {
		if m.unitsErr != nil {
			a.log.Warn("{source}: metric {metric} has no units: {error}", "source", s.path, "metric", clip(m.sample), "error", m.unitsErr)
		}
	}
	for i, m := range leftOut {
		a.log.Warn("source {source}: metric {metric} is left out: {error}", "source", s.name, "metric", clip(m.sample), "error", errs[i])
	}
}

func (a *agent) pmid(s *source, m *metric) pdu.PMID { return pdu.NewPMID(a.domain, s.cluster, m.item) }

// metric returns the metric with a PMID and its source, which is locked. The error is PM_ERR_PMID.
func (a *agent) metric(id pdu.PMID) (*source, *metric, error) {
	s := a.byCluster[id.Cluster()]
	if s == nil || id.Domain() != a.domain {
		return nil, nil, pdu.ErrnoPMID
	}
	s.mu.Lock()
	if n := id.Item(); n < len(s.byItem) && s.byItem[n] != nil && s.byItem[n].named {
		return s, s.byItem[n], nil
	}
	s.mu.Unlock()
	return nil, nil, pdu.ErrnoPMID
}

// Desc implements [agents.Agent].
func (a *agent) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	if c := a.control(id); c != nil {
		return c.desc(a, id), nil
	}
	s, m, err := a.metric(id)
	if err != nil {
		return pdu.Desc{}, err
	}
	defer s.mu.Unlock()
	d := pdu.Desc{PMID: id, ValueType: m.typ, InDom: pdu.NoInDom, Sem: m.sem, Units: m.units}
	if m.insts != nil {
		d.InDom = pdu.NewInDom(a.domain, instSerial(s.cluster, m.item))
	}
	return d, nil
}

// Text implements [agents.Texter].
func (a *agent) Text(_ context.Context, _ agents.Origin, id pdu.PMID, oneLine bool) (string, error) {
	if c := a.control(id); c != nil {
		return c.oneLine, nil
	}
	s, m, err := a.metric(id)
	if err != nil {
		return "", err
	}
	defer s.mu.Unlock()
	if oneLine || m.text == "" { // as libpcp_pmda in PCP's agent
		return m.oneLine, nil
	}
	return m.text, nil
}

// InDomText implements [agents.Texter].
func (a *agent) InDomText(context.Context, agents.Origin, pdu.InDom, bool) (string, error) {
	return "", pdu.ErrnoText
}
