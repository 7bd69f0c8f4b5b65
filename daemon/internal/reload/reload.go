// Package reload loads the configuration at the start, and again when it has changed.
//
// A [Reloader] loads four parts: the configuration (pmcd.conf and pmcd.conf.access), the
// name space, TLS (tls.conf and the files that it names) and the context labels. It reads
// and checks all of a part that has changed. If the part is valid, it replaces the old one
// in one step. Otherwise the old one stays in use. A request uses the routes.Table that was
// in use when the request arrived, until it needs an agent that the reload has replaced.
package reload

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/labels"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/daemon/internal/session"
	"github.com/gopcp/pmcd/daemon/internal/tlspolicy"
	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmcdconf/hostlabels"
	"github.com/gopcp/pmcd/pmnsload"
)

// Embedded is a configuration that is not in files. A reload does not change it.
type Embedded struct {
	Conf   *pmcdconf.Config
	Names  *pmnsload.Tree
	Labels []hostlabels.Label // context labels, by name
}

// A Config is the configuration of a Reloader. All pointers and functions must be set,
// except those whose comment says that they may be nil.
type Config struct {
	ConfigFile    string // pmcd.conf (-c)
	Namespace     Namespace
	LabelDir      string            // that of Labels, for Watch and messages
	TLSConf       string            // tls.conf; "" is none
	Embedded      *Embedded         // replaces the files, except TLSConf; may be nil
	CredsRequired bool              // clients must state their account, whatever the rules are (-S)
	CertRequired  bool              // clients that are not local must have a certificate (-Q)
	Resolver      pmcdconf.Resolver // may be nil: see pmcdconf.Options
	Watch         bool              // Watch will be called
	Overdue       time.Duration     // a reload that takes longer is a problem

	Routes  *atomic.Pointer[routes.Table]     // only the Reloader stores tables
	TLS     *atomic.Pointer[tlspolicy.Server] // nil if TLS is off; only the Reloader stores it
	Agents  *agentset.Set
	Clients *session.Server
	Labels  *labels.Host
	Seqnum  *atomic.Uint32 // starts of agents (pmcd.seqnum)

	Reloading     func() // called when a reload begins; may be nil
	AgentsChanged func() // called when the number of agents may have changed
	AgentsStarted func() // called when the agents of a reload have started or failed

	Log     *slog.Logger // lines without time and level have the attribute logtext.Bare
	Limiter *diag.LogLimiter
	Debug   *diag.Debug
}

// A Reloader reads the configuration and applies it.
//
// Load is called first, then LoadLabels, LoadNames and LoadTLS in any order. These methods, Reload,
// ReloadNames and Wait are called one at a time. One goroutine calls Watch. Any goroutine
// may call the other methods.
type Reloader struct {
	cfg   Config
	plain *slog.Logger
	conf  confState
	names nameState
	rules rules
	// watchedBefore has the versions of the watched files at the last check.
	watchedBefore map[string]fileVersion
	abandoned     []<-chan struct{} // each is closed when a call that await did not wait for returns

	requests     chan struct{} // has a value if a reload is requested
	nameRequests chan struct{} // has a value if a reload of the PMNS is requested
	hangups      atomic.Uint32 // calls of Request that are not yet in done
	done         atomic.Uint32 // calls of Request whose reload is over
	last         atomic.Pointer[Status]
	leftOut      atomic.Pointer[[]string] // see Problems
	tlsOff       atomic.Pointer[string]   // see TLSProblem
	running      atomic.Pointer[running]  // the reload in progress, or nil
}

// A Status is the number of reloads and the result of the last one.
type Status struct {
	Count uint32    // as pmcd.sighups
	Last  time.Time // zero if there was none
	Err   error     // why the last one failed, in whole or in part
}

// New returns a Reloader that has not read any file yet.
func New(cfg Config) *Reloader {
	return &Reloader{
		cfg:          cfg,
		plain:        cfg.Log.With(logtext.Bare()),
		requests:     make(chan struct{}, 1),
		nameRequests: make(chan struct{}, 1),
	}
}

// Load loads the configuration for the first time. It starts no agent. It loads no names,
// unless the configuration is embedded: see LoadNames. It logs mistakes that are not
// errors. It returns an error if ctx ends before the files are read, and a *Mistake if they
// must be changed.
func (r *Reloader) Load(ctx context.Context) error {
	conf, tree, err := r.read(ctx)
	if err != nil {
		return err
	}
	if len(conf.Agents) == 0 {
		return asMistake(pmcdconf.NoAgents(r.cfg.ConfigFile))
	}
	list := make([]*agentset.Agent, len(conf.Agents))
	for i := range conf.Agents {
		list[i] = r.cfg.Agents.NewAgent(&conf.Agents[i])
	}
	r.cfg.Routes.Store(routes.New(list, tree))
	return r.applyRules(ctx, conf)
}

// read reads the configuration for the first time. The names are nil if they are in a
// file.
func (r *Reloader) read(ctx context.Context) (*pmcdconf.Config, *pmnsload.Tree, error) {
	if e := r.cfg.Embedded; e != nil {
		return e.Conf, e.Names, nil
	}
	type firstRead struct {
		confRead
		watched map[string]fileVersion
	}
	path, opt := r.cfg.ConfigFile, r.confOptions()
	got, err := await(ctx, r, "reads "+path, func() (first firstRead) {
		if r.cfg.Watch {
			first.watched = newWatchList(&r.cfg).versions()
		}
		first.confRead = readConf(ctx, path, confVersion{}, opt)
		return first
	})
	if err != nil {
		return nil, nil, err
	}
	r.describeRead(got.confRead)
	if got.err != nil {
		return nil, nil, asMistake(got.err)
	}
	r.conf.version, r.watchedBefore = got.seen, got.watched
	return got.conf, nil, nil
}

// LoadLabels reads the context labels for the first time. If ctx ends first, there are
// none.
func (r *Reloader) LoadLabels(ctx context.Context) { r.refreshLabels(ctx) }

func (r *Reloader) refreshLabels(ctx context.Context) (changed bool, err error) {
	return await(ctx, r, "reads the context labels in "+r.cfg.LabelDir, func() bool { return r.cfg.Labels.Refresh(time.Now()) })
}

// Request requests a reload, as SIGHUP does. pmcd.sighups counts the request when the
// reload is over, even if it has failed. One reload serves all requests that arrive before
// it begins.
func (r *Reloader) Request() {
	r.hangups.Add(1)
	r.requestReload()
}

func (r *Reloader) requestReload() {
	select {
	case r.requests <- struct{}{}:
	default: // the pending request serves for this one, too
	}
}

// Requests returns a channel that has a value when Reload should be called.
func (r *Reloader) Requests() <-chan struct{} { return r.requests }

// RequestNames requests a reload of the name space.
func (r *Reloader) RequestNames() {
	select {
	case r.nameRequests <- struct{}{}:
	default: // the pending request serves for this one, too
	}
}

// NameRequests returns a channel that has a value when ReloadNames should be called.
func (r *Reloader) NameRequests() <-chan struct{} { return r.nameRequests }

// Status returns the status of reloads.
func (r *Reloader) Status() Status {
	st := Status{Count: r.done.Load()}
	if last := r.last.Load(); last != nil {
		st.Last, st.Err = last.Last, last.Err
	}
	return st
}

// Reload applies what has changed, and starts agents that are down.
func (r *Reloader) Reload(ctx context.Context) {
	if r.cfg.Reloading != nil {
		r.cfg.Reloading()
	}
	requested := r.hangups.Load()
	defer r.end()
	r.cfg.Log.Info("\n\npmcd RESTARTED at {date}\n\n", "date", time.Now().Format(time.ANSIC))
	r.cfg.Clients.LogClients("Current PMCD clients ...")
	r.cfg.Clients.ResetViolations()
	if changed, err := r.refreshLabels(ctx); err == nil && changed {
		r.cfg.Clients.Notify(pdu.StateLabelChange)
	}
	r.cfg.Clients.CheckHostname(time.Now())
	err := errors.Join(r.reloadConf(ctx), r.reloadNames(ctx), r.reloadTLS(ctx))
	r.cfg.AgentsChanged()
	if ctx.Err() != nil {
		return
	}
	r.end()
	r.last.Store(&Status{Last: time.Now(), Err: err})
	// Scripts wait for this, and then use the agents.
	r.hangups.Add(-requested)
	r.done.Add(requested)
	r.cfg.AgentsStarted()
}
