// Package daemon is the collector: it answers PCP clients by asking agents. A [Daemon]
// is configured, run, reloaded and asked for its status. Its parts are packages of
// their own:
//
//	conn      accepts, greets and watches connections of clients
//	session   reads requests, checks rights, asks agents, replies
//	routes    domain -> agent, name tree; one immutable snapshot
//	agentset  starts and supervises agents
//	reload    reads configuration and puts it in force
//	diag      event trace, debug options, log limiter
//
// An idle connection uses no goroutine. A session waits only for the agents that its
// request names. Package daemon starts no process, reads no flag and no environment,
// and logs through the logger of its Config.
package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/agents/logtext"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/reload"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/daemon/internal/session"
	"github.com/gopcp/pmcd/pdu"
)

// A Daemon is one collector. Make it with New and call Run once. Any goroutine may
// call its methods.
type Daemon struct {
	cfg     Config
	log     *slog.Logger
	plain   *slog.Logger
	limiter *diag.LogLimiter
	trace   *diag.Trace
	debug   *diag.Debug

	routes   atomic.Pointer[routes.Table] // stored by reloader
	agentSet *agentset.Set
	sessions *session.Server
	reloader *reload.Reloader
	handler  conn.Handler   // sessions, but in tests
	acceptor *conn.Acceptor // set by Run
	counts   pdu.Counts
	seqnum   atomic.Uint32 // starts of agents

	// What pmcd.control.* can change.
	timeout      atomic.Int64 // a time.Duration
	credsTimeout atomic.Int64 // a time.Duration

	problems   problems
	healthNews chan struct{} // full when the Health may have changed
	probes     chan struct{} // received from at each turn of Run's loop

	stopping context.Context // ends when agents must end
	kill     context.CancelFunc
}

// New returns a Daemon with its configuration loaded, and no agent started. Its
// name space is being read from then on. What is not an error, but worth a line,
// is logged.
func New(cfg Config) (*Daemon, error) {
	d := &Daemon{
		cfg:        cfg,
		log:        cfg.Log,
		plain:      cfg.Log.With(logtext.Bare()),
		probes:     make(chan struct{}),
		healthNews: make(chan struct{}, 1),
	}
	d.trace = diag.NewTrace(cfg.TraceMask, d.plain)
	d.limiter = diag.NewLogLimiter(cfg.Log)
	d.timeout.Store(int64(cfg.RequestTimeout))
	d.credsTimeout.Store(int64(cfg.HandshakeTimeout))
	d.debug = diag.NewDebug(cfg.Debug, cfg.Log)
	d.seqnum.Store(1)
	d.stopping, d.kill = context.WithCancel(context.Background())

	d.agentSet = d.newAgentSet()
	d.sessions = d.newSessions()
	d.handler = d.sessions
	d.reloader = d.newReloader()
	if err := d.reloader.Load(); err != nil {
		return nil, err
	}
	return d, nil
}

// newSessions returns the Server of clients.
func (d *Daemon) newSessions() *session.Server {
	cfg := session.Config{
		Routes:         d.routes.Load,
		RequestTimeout: func() time.Duration { return time.Duration(d.timeout.Load()) },
		CertRequired:   d.cfg.CertRequired,
		MaxPDU:         d.cfg.MaxPDU,
		MaxContexts:    d.cfg.MaxContexts,
		MaxMetrics:     d.cfg.MaxMetrics,
		Labels:         session.LabelSource{Dir: d.cfg.LabelDir},
		Hostname:       d.cfg.gethostname,
		HostnameEvery:  d.cfg.hostnameEvery,
		ContainerHost:  d.cfg.ContainerHost,
		Counts:         &d.counts,
		Log:            d.log,
		Limiter:        d.limiter,
		Trace:          d.trace,
		Debug:          d.debug,
	}
	if e := d.cfg.Embedded; e != nil {
		cfg.Labels = session.LabelSource{Embedded: true, List: e.Labels}
	}
	if cfg.Hostname == nil {
		cfg.Hostname = os.Hostname
	}
	return session.New(cfg)
}

// newReloader returns what reads the configuration.
func (d *Daemon) newReloader() *reload.Reloader {
	return reload.New(reload.Config{
		ConfigFile:    d.cfg.ConfigFile,
		Namespace:     d.cfg.Namespace,
		LabelDir:      d.cfg.LabelDir,
		Embedded:      d.cfg.Embedded,
		CredsRequired: d.cfg.CredsRequired,
		Watch:         d.cfg.Watch,
		Routes:        &d.routes,
		Agents:        d.agentSet,
		Clients:       d.sessions,
		Seqnum:        &d.seqnum,
		Reloading:     d.cfg.Reloading,
		AgentsChanged: d.limitClients,
		AgentsStarted: d.reportStarted,
		Log:           d.log,
		Limiter:       d.limiter,
		Debug:         d.debug,
	})
}

// Run serves clients until ctx ends. It greets when the name space is read,
// and it is an error if that cannot be. A request that names an agent which is
// being started waits for that.
func (d *Daemon) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.sessions.RefreshLabels()
	d.sessions.CheckHostname(time.Now())
	acceptor, err := conn.NewAcceptor(conn.Config{
		Listeners: d.cfg.Listeners,
		Handler:   d.handler,
		Warn:      d.limiter.Warn,
		Changed:   func() {},
		Busy:      d.sessions.Busy,
		Portable:  d.cfg.PortableAcceptor,
	})
	if err != nil {
		d.cfg.Listeners.Close()
		return err
	}
	d.acceptor = acceptor
	defer context.AfterFunc(d.stopping, acceptor.Kill)()
	d.limitClients()
	// What may take its time does not run in the loop below, but one job at a time on
	// another goroutine.
	serving := make(chan struct{})
	job := start(func() { d.startAll(ctx, serving) })
	if err = d.reloader.TakeNames(ctx); err != nil {
		cancel()
	}
	var background sync.WaitGroup
	if ctx.Err() == nil {
		if d.cfg.Serving != nil {
			d.cfg.Serving()
		}
		close(serving)
		if d.cfg.Watch && d.cfg.Embedded == nil {
			background.Go(func() { d.reloader.Watch(ctx) })
		}
	}
	background.Go(func() {
		if aerr := acceptor.Run(ctx); aerr != nil {
			err = aerr
			cancel()
		}
	})
	minute := time.NewTicker(diag.LimitInterval)
	defer minute.Stop()
	var report <-chan time.Time // nil if there is nothing to report
	for ctx.Err() == nil {
		var reloads, nameChanges <-chan struct{}
		var reportDue <-chan time.Time
		if job == nil {
			reloads, nameChanges, reportDue = d.reloader.Requests(), d.reloader.NameRequests(), report
		}
		select {
		case <-ctx.Done():
		case <-d.probes:
		case <-job:
			job = nil
		case <-minute.C:
			d.limiter.Flush(false)
		case <-d.healthNews:
			if report == nil {
				report = time.After(healthTime)
			}
		case <-reportDue:
			report = nil
			job = start(d.reportChanged) // the function that it calls may be slow
		case <-reloads:
			job = start(func() { d.reloader.Reload(ctx) })
		case <-nameChanges:
			job = start(func() { d.reloader.ReloadNames(ctx) }) // logs what is wrong
		}
	}

	background.Wait()
	if err := d.cfg.Listeners.Close(); err != nil { // only root may be able to
		d.log.Warn("{error}", "error", err)
	}
	if job != nil {
		<-job
	}
	d.sessions.Abort()
	defer d.kill()
	force := time.AfterFunc(stopGrace, d.kill)
	defer force.Stop()
	d.agentSet.Stop(d.routes.Load().Agents())
	acceptor.Wait(stopGrace)
	d.sessions.Close()
	d.agentSet.Wait()
	d.limiter.Flush(true)
	d.log.Info("pmcd Shutdown")
	return err
}

// startAll starts all agents and, once clients are served, logs what there is.
func (d *Daemon) startAll(ctx context.Context, serving <-chan struct{}) {
	agents := d.routes.Load().Agents()
	d.agentSet.Start(ctx, agents)
	select {
	case <-serving:
	case <-ctx.Done():
		return
	}
	d.agentSet.LogTable(agents)
	d.sessions.LogRules()
	d.plain.Info(fmt.Sprintf("\npmcd: PID = %d, PDU version = 2", os.Getpid()))
	d.plain.Info(d.cfg.Listeners.String())
	if ctx.Err() == nil {
		d.reportStarted()
	}
}

// start runs f on a goroutine. The channel is closed when f has returned.
func start(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}

// stopGrace is how long agents may take to end when the daemon does.
const stopGrace = time.Second
