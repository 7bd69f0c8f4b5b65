// Package reload puts configuration in force: at the start, and when it has changed.
//
// A [Reloader] looks at the configuration (pmcd.conf and pmcd.conf.access), the name
// space and the context labels, each by itself. What has changed is read and checked
// as a whole; then it takes the place of the old in one step, or the old stays. A
// request uses the routes.Table that was in force when it came.
package reload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/agents/logtext"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/daemon/internal/session"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmcdconf/hostlabels"
	"github.com/gopcp/pmcd/pmnsload"
)

// Embedded is configuration that is in no files. A reload leaves it as it is.
type Embedded struct {
	Conf   *pmcdconf.Config
	Names  *pmnsload.Tree
	Labels []hostlabels.Label // context labels, by name
}

// A Config is what a Reloader needs to know. What says so may be nil; other
// pointers and functions must be set.
type Config struct {
	ConfigFile    string // pmcd.conf (-c)
	Namespace     Namespace
	LabelDir      string    // see session.LabelSource; it is watched here
	Embedded      *Embedded // in place of what is in files; may be nil
	CredsRequired bool      // whatever the access rules are (-S)
	Watch         bool      // Watch will be called

	Routes  *atomic.Pointer[routes.Table] // only the Reloader stores tables
	Agents  *agentset.Set
	Clients *session.Server
	Seqnum  *atomic.Uint32 // starts of agents (pmcd.seqnum)

	Reloading     func() // a reload begins; may be nil
	AgentsChanged func() // there may be more agents than before, or less
	AgentsStarted func() // the agents of a reload are started or have failed

	Log     *slog.Logger // lines without time and level have the attribute logtext.Bare
	Limiter *diag.LogLimiter
	Debug   *diag.Debug
}

// A Reloader reads configuration and puts it in force.
//
// Load is called first. TakeNames, Reload and ReloadNames are called one at a time,
// and Watch by one goroutine. Any goroutine may call the other methods.
type Reloader struct {
	cfg   Config
	plain *slog.Logger
	conf  confState
	names nameState
	// watchedBefore is what was there when files were looked at for changes.
	watchedBefore map[string]fileVersion

	requests     chan struct{} // holds one request to reload
	nameRequests chan struct{} // holds one request to look at the PMNS
	hangups      atomic.Uint32 // reloads asked for by SIGHUP, not yet in done
	done         atomic.Uint32 // reloads asked for by SIGHUP
	last         atomic.Pointer[Status]
}

// A Status is what has become of requests to reload.
type Status struct {
	Count uint32    // as pmcd.sighups
	Last  time.Time // zero if there was none
	Err   error     // why the last was not carried out, or not all of it
}

// New returns a Reloader that has read nothing yet.
func New(cfg Config) *Reloader {
	return &Reloader{
		cfg:          cfg,
		plain:        cfg.Log.With(logtext.Bare()),
		requests:     make(chan struct{}, 1),
		nameRequests: make(chan struct{}, 1),
	}
}

// Load puts the first configuration in force, with no agent started, and begins to
// read the name space: see TakeNames. What is not an error, but worth a line, is
// logged.
func (r *Reloader) Load() error {
	conf, tree, err := r.read()
	if err != nil {
		return err
	}
	if len(conf.Agents) == 0 {
		//lint:ignore ST1005 PCP's text
		return fmt.Errorf("No PMDAs found in the configuration file %q", r.cfg.ConfigFile)
	}
	list := make([]*agentset.Agent, len(conf.Agents))
	for i := range conf.Agents {
		list[i] = r.cfg.Agents.NewAgent(&conf.Agents[i])
	}
	r.cfg.Routes.Store(routes.New(list, tree))
	r.cfg.Clients.ApplyRules(conf.Access)
	return nil
}

// read reads the configuration for the first time, and begins to read the name
// space.
func (r *Reloader) read() (*pmcdconf.Config, *pmnsload.Tree, error) {
	if e := r.cfg.Embedded; e != nil {
		return e.Conf, e.Names, nil
	}
	if r.cfg.Watch {
		r.watchedBefore = newWatchList(&r.cfg).versions()
	}
	reading := make(chan struct{})
	r.names.reading = reading
	go func() {
		defer close(reading)
		r.names.first = r.cfg.Namespace.read(context.Background(), fileVersion{})
	}()
	conf := readConf(r.cfg.ConfigFile, confVersion{}, r.confOptions())
	r.describeRead(conf)
	if conf.err != nil {
		return nil, nil, conf.err
	}
	r.conf.version = conf.seen
	return conf.conf, nil, nil
}

// Request asks for the work of SIGHUP. It is counted in pmcd.sighups when that
// is done, whatever came of it; several that come meanwhile are done at once.
func (r *Reloader) Request() {
	r.hangups.Add(1)
	r.requestReload()
}

func (r *Reloader) requestReload() {
	select {
	case r.requests <- struct{}{}:
	default: // a request that has not begun stands for this one, too
	}
}

// Requests returns the channel that holds a value when Reload is to be called.
func (r *Reloader) Requests() <-chan struct{} { return r.requests }

// RequestNames asks for a look at the name space.
func (r *Reloader) RequestNames() {
	select {
	case r.nameRequests <- struct{}{}:
	default: // the pending request stands for this one, too
	}
}

// NameRequests returns the channel that holds a value when ReloadNames is to be
// called.
func (r *Reloader) NameRequests() <-chan struct{} { return r.nameRequests }

// Status reports on reloads.
func (r *Reloader) Status() Status {
	st := Status{Count: r.done.Load()}
	if last := r.last.Load(); last != nil {
		st.Last, st.Err = last.Last, last.Err
	}
	return st
}

// Reload puts in force what has changed, and starts agents that are down.
func (r *Reloader) Reload(ctx context.Context) {
	if r.cfg.Reloading != nil {
		r.cfg.Reloading()
	}
	requested := r.hangups.Load()
	r.cfg.Log.Info("\n\npmcd RESTARTED at {date}\n\n", "date", time.Now().Format(time.ANSIC))
	r.cfg.Clients.LogClients("Current PMCD clients ...")
	r.cfg.Clients.ResetViolations()
	if changed, err := await(ctx, r.cfg.Clients.RefreshLabels); err == nil && changed {
		r.cfg.Clients.Notify(pdu.StateLabelChange)
	}
	r.cfg.Clients.CheckHostname(time.Now())
	err := errors.Join(r.reloadConf(ctx), r.ReloadNames(ctx))
	r.cfg.AgentsChanged()
	if ctx.Err() != nil {
		return
	}
	r.last.Store(&Status{Last: time.Now(), Err: err})
	// Scripts wait for this and then expect the agents to be there.
	r.hangups.Add(-requested)
	r.done.Add(requested)
	r.cfg.AgentsStarted()
}
