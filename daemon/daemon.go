// Package daemon is the collector: it answers PCP clients by asking agents.
//
//	client socket -> conn.Acceptor: accepts, greets, watches idle connections
//	              -> session: frames, then one request after the other
//	              -> dispatch: access check, handler by PDU type
//	              -> routes: domain -> agent, name tree; one immutable snapshot
//	              -> transport.Transport: a PDU out and a PDU back
//	              -> one reply, one write
//
// An idle connection uses no goroutine. A session waits only for the agents that its
// request names. Package daemon starts no process, reads no flag and no environment,
// and logs through the logger of its Config.
package daemon

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/daemon/internal/session"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmnsload"
)

// A Daemon is one collector. Make it with New and call Run once.
type Daemon struct {
	cfg   Config
	log   *zap.Logger
	plain *zap.Logger
	trace *diag.Trace

	agentSet     *agentset.Set
	routes       atomic.Pointer[routes.Table]
	confSeen     confSeen // the configuration that routes has
	confRejected confSeen // the one that was rejected last, unless another was taken since
	pmnsSeen     fileSeen
	reading      <-chan struct{} // closed when names is set, for the first name space; nil if that is embedded
	names        namesRead
	// watchSeen is what was there when files were looked at for changes.
	watchSeen map[string]fileSeen

	// What pmcd.control.* can change.
	timeout      atomic.Int64 // a time.Duration
	credsTimeout atomic.Int64 // a time.Duration
	debug        *diag.Debug

	seqnum      atomic.Uint32 // starts of agents
	sighups     atomic.Uint32
	limiter     *diag.LogLimiter
	acceptor    *conn.Acceptor // set by Run
	counts      pdu.Counts
	sessions    *session.Server
	handler     conn.Handler  // sessions, but in tests
	reloads     chan struct{} // holds one request to reload
	beats       chan struct{} // received from at each turn of Run's loop
	reloaded    atomic.Pointer[ReloadStatus]
	hangups     atomic.Uint32 // reloads asked for by SIGHUP, not yet in sighups
	nameChanges chan struct{} // holds one request to look at the PMNS
	problems    problems
	unsaid      chan struct{} // full when the Health may have changed

	stopping context.Context // ends when agents must end
	kill     context.CancelFunc
}

// New returns a Daemon with its configuration loaded, and no agent started. Its
// name space is being read from then on. What is not an error, but worth a line,
// is logged.
func New(cfg Config) (*Daemon, error) {
	d := &Daemon{
		cfg:         cfg,
		log:         cfg.Log,
		plain:       cfg.Log.Named("plain"),
		reloads:     make(chan struct{}, 1),
		beats:       make(chan struct{}),
		nameChanges: make(chan struct{}, 1),
		unsaid:      make(chan struct{}, 1),
	}
	d.trace = diag.NewTrace(cfg.TraceMask, d.plain)
	d.limiter = diag.NewLogLimiter(cfg.Log)
	d.timeout.Store(int64(cfg.RequestTimeout))
	d.credsTimeout.Store(int64(cfg.HandshakeTimeout))
	d.debug = diag.NewDebug(cfg.Debug, cfg.Log)
	d.seqnum.Store(1)
	d.stopping, d.kill = context.WithCancel(context.Background())

	conf, tree, err := d.load()
	if err != nil {
		return nil, err
	}
	if len(conf.Agents) == 0 {
		return nil, fmt.Errorf("No PMDAs found in the configuration file %q", cfg.ConfigFile)
	}
	d.agentSet = d.newAgentSet()
	list := make([]*agentset.Agent, len(conf.Agents))
	for i := range conf.Agents {
		list[i] = d.agentSet.NewAgent(&conf.Agents[i])
	}
	d.routes.Store(routes.New(list, tree))
	d.sessions = d.newSessions(conf.Access)
	d.handler = d.sessions
	return d, nil
}

// newSessions returns the Server of clients, with the first access rules.
func (d *Daemon) newSessions(rules *access.List) *session.Server {
	cfg := session.Config{
		Routes:         d.routes.Load,
		RequestTimeout: func() time.Duration { return time.Duration(d.timeout.Load()) },
		Rules:          rules,
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

// load reads the configuration for the first time, and begins to read the name
// space.
func (d *Daemon) load() (*pmcdconf.Config, *pmnsload.Tree, error) {
	if e := d.cfg.Embedded; e != nil {
		return e.Conf, e.Names, nil
	}
	if d.cfg.Watch {
		d.watchSeen = d.watched()
	}
	d.reading = start(func() { d.names = d.cfg.Namespace.read(context.Background(), fileSeen{}) })
	conf := readConf(d.cfg.ConfigFile, confSeen{}, d.confOptions())
	d.describeRead(conf)
	if conf.err != nil {
		return nil, nil, conf.err
	}
	d.confSeen = conf.seen
	return conf.conf, nil, nil
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
		Warn:      func(key, text string) { d.limiter.Printf(key, "%s", text) },
		Portable:  d.cfg.PortableAcceptor,
	})
	if err != nil {
		return err
	}
	d.acceptor = acceptor
	defer context.AfterFunc(d.stopping, acceptor.Kill)()
	d.limitClients()
	// What may take its time is done beside the loop below, one after the other.
	serving := make(chan struct{})
	job := start(func() { d.startAll(ctx, serving) })
	if err = d.takeNames(ctx); err != nil {
		cancel()
	}
	var beside sync.WaitGroup
	if ctx.Err() == nil {
		if d.cfg.Serving != nil {
			d.cfg.Serving()
		}
		close(serving)
		if d.cfg.Watch && d.cfg.Embedded == nil {
			beside.Go(func() { d.watchConfig(ctx) })
		}
	}
	beside.Go(func() {
		if aerr := acceptor.Run(ctx); aerr != nil {
			err = aerr
			cancel()
		}
	})
	minute := time.NewTicker(diag.LimitInterval)
	defer minute.Stop()
	var tell <-chan time.Time // nil if there is nothing to tell
	for ctx.Err() == nil {
		var reloads, nameChanges <-chan struct{}
		var unsaid <-chan time.Time
		if job == nil {
			reloads, nameChanges, unsaid = d.reloads, d.nameChanges, tell
		}
		select {
		case <-ctx.Done():
		case <-d.beats:
		case <-job:
			job = nil
		case <-minute.C:
			d.limiter.Flush(false)
		case <-d.unsaid:
			if tell == nil {
				tell = time.After(healthTime)
			}
		case <-unsaid:
			tell = nil
			job = start(d.tellChanged) // whom it tells may be slow
		case <-reloads:
			job = start(func() { d.reload(ctx) })
		case <-nameChanges:
			job = start(func() { d.reloadNames(ctx) }) // logs what is wrong
		}
	}

	beside.Wait()
	if err := d.cfg.Listeners.Close(); err != nil { // only root may be able to
		d.log.Warn(err.Error())
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

// startAll starts all agents and says, once clients are served, what there is.
func (d *Daemon) startAll(ctx context.Context, serving <-chan struct{}) {
	r := d.routes.Load()
	d.agentSet.Start(ctx, r.Agents())
	select {
	case <-serving:
	case <-ctx.Done():
		return
	}
	d.logAgents(r)
	d.sessions.LogRules()
	d.plain.Info(fmt.Sprintf("\npmcd: PID = %d, PDU version = 2", os.Getpid()))
	d.plain.Info(d.cfg.Listeners.String())
	if ctx.Err() == nil {
		d.tellSettled()
	}
}

// start runs f beside its caller. The channel is closed when f has returned.
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
