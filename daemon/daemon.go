// Package daemon is the collector. It answers requests of PCP clients, and gets the values
// from agents. A [Daemon] is configured, run and reloaded, and reports its status. The packages
// below internal are its parts.
//
// An idle connection uses no goroutine. A session waits only for the agents that its
// request names. Package daemon starts no process, except commands in a name space
// file (#shell), reads no flag and no environment, and logs through the logger of its
// Config.
//
// Package daemon serves the programs of this module, and may change in any release.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/labels"
	"github.com/gopcp/pmcd/daemon/internal/reload"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/daemon/internal/sasl"
	"github.com/gopcp/pmcd/daemon/internal/session"
	"github.com/gopcp/pmcd/daemon/internal/tlspolicy"
	"github.com/gopcp/pmcd/internal/logtext"
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

	routes   atomic.Pointer[routes.Table]     // stored by reloader
	tls      atomic.Pointer[tlspolicy.Server] // nil if TLS is off; stored by reloader
	sasl     atomic.Pointer[sasl.Host]        // nil if clients cannot log in
	agentSet *agentset.Set
	labels   *labels.Host
	sessions *session.Server
	reloader *reload.Reloader
	acceptor atomic.Pointer[conn.Acceptor] // stored by Run
	counts   pdu.Counts
	seqnum   atomic.Uint32 // starts of agents

	// What pmcd.control.* can change.
	timeout      atomic.Int64 // a time.Duration
	credsTimeout atomic.Int64 // a time.Duration

	overload   atomic.Pointer[Overload]      // the last one; nil if there was none
	limiting   sync.Mutex                    // held by limitClients
	shortage   atomic.Pointer[conn.Shortage] // of descriptors; nil if there is none
	healthNews chan struct{}                 // full when the Health may have changed
	reporting  sync.Mutex                    // held while a function of the Manager is called; locked before all others
	probes     chan struct{}                 // the loop of Run receives from it

	stopping context.Context // ends when agents must end
	kill     context.CancelFunc
}

// New returns a Daemon. It loads the configuration, and logs mistakes that are not errors.
// It does not start agents, and does not load the name space: Run does both. New
// returns an error if the Config cannot be used, or if ctx ends before the configuration is
// read. It does not close the Listeners then.
func New(ctx context.Context, cfg Config) (*Daemon, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	plain := cfg.Log.With(logtext.Bare())
	d := &Daemon{
		cfg:        cfg,
		log:        cfg.Log,
		plain:      plain,
		limiter:    diag.NewLogLimiter(cfg.Log),
		trace:      diag.NewTrace(cfg.TraceMask, plain),
		debug:      diag.NewDebug(cfg.Debug, cfg.Log),
		probes:     make(chan struct{}),
		healthNews: make(chan struct{}, 1),
	}
	d.timeout.Store(int64(cfg.Agents.RequestTimeout))
	d.credsTimeout.Store(int64(cfg.Agents.HandshakeTimeout))
	d.seqnum.Store(1)
	d.stopping, d.kill = context.WithCancel(context.Background())

	d.agentSet = d.newAgentSet() // the agents: their processes, states and restarts
	d.labels = d.newLabels()     // the labels of this host, from files
	d.sessions = d.newSessions() // the clients: what each may do, and asks agents
	d.reloader = d.newReloader() // files to routes, rules and the TLS policy
	if err := d.reloader.Load(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// Run serves clients until ctx ends. It greets them when the name space and the TLS settings
// are loaded, and returns an error if they cannot be loaded. A request for an agent that is in
// its first start waits for the end of the start.
func (d *Daemon) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.reloader.LoadLabels(ctx)
	d.sessions.CheckHostname(time.Now())
	acceptor, err := d.newAcceptor()
	if err != nil {
		return err
	}
	defer context.AfterFunc(d.stopping, acceptor.Kill)()
	serving := make(chan struct{})
	l := loop{d: d, job: start(func() { d.startAll(ctx, serving) })}
	stopSASL, err := d.prepare(ctx, cancel)
	defer stopSASL()
	if ctx.Err() == nil { // it has not ended meanwhile
		if d.cfg.Manager.Serving != nil {
			d.cfg.Manager.Serving()
		}
		close(serving)
		if d.cfg.Files.Watch && d.cfg.Files.Embedded == nil {
			l.background.Go(func() { d.reloader.Watch(ctx) })
		}
	}
	l.background.Go(func() {
		if aerr := acceptor.Run(ctx); aerr != nil {
			err = aerr
			cancel()
		}
	})
	l.run(ctx)
	l.background.Wait()
	if err, ok := errors.AsType[*fs.PathError](d.cfg.Listeners.Close()); ok { // only root may be able to
		d.log.Warn("cannot remove {path}: {error}; a pmcd that root starts replaces it", "path", err.Path, "error", err.Err)
	}
	if l.job != nil {
		<-l.job
	}
	d.reloader.Wait(stopGrace)
	d.stop(acceptor)
	return err
}

// newAcceptor makes the acceptor. If it cannot, it closes the Listeners.
func (d *Daemon) newAcceptor() (*conn.Acceptor, error) {
	acceptor, err := conn.NewAcceptor(conn.Config{
		Listeners:  d.cfg.Listeners,
		Handler:    d.sessions,
		Warn:       d.limiter.Warn,
		Changed:    d.HealthChanged,
		SendBuffer: d.cfg.Limits.sendBuffer(),
	})
	if err != nil {
		d.cfg.Listeners.Close()
		return nil, err
	}
	d.acceptor.Store(acceptor)
	d.limitClients()
	return acceptor, nil
}

// prepare loads what clients cannot be greeted without. If it cannot, it ends ctx.
func (d *Daemon) prepare(ctx context.Context, cancel func()) (stopSASL func(), err error) {
	logins := start(func() { stopSASL = d.startSASL(ctx) })
	if err = d.reloader.LoadNames(ctx); err == nil {
		err = d.reloader.LoadTLS(ctx)
	}
	if ctx.Err() != nil {
		err = nil
	} else if err != nil {
		cancel()
	}
	<-logins // soon, if ctx has ended
	return stopSASL, err
}

// Reload requests a reload, as SIGHUP does, and returns. pmcd.sighups counts it when it
// is done, also if it has failed. One reload serves all requests that arrive before it
// begins. RLIMIT_NOFILE is read at once, since a reload that waits for agents may take long.
func (d *Daemon) Reload() {
	if d.acceptor.Load() != nil {
		d.limitClients()
	}
	d.reloader.Request()
}

// CPUsChanged makes the numbers of requests, of TLS handshakes and of logins that are computed at a
// time follow runtime.GOMAXPROCS, which the caller has changed, because the process may use n CPUs now.
func (d *Daemon) CPUsChanged(n int) {
	slots, handshakes := d.sessions.Resize()
	d.log.Info("the number of CPUs that pmcd may use is {cpus} now (CPU affinity, limits of the control group): it computes {slots} requests, {handshakes} TLS handshakes and as many logins at a time",
		"cpus", n, "slots", slots, "handshakes", handshakes)
}

// stop ends the sessions and the agents.
func (d *Daemon) stop(acceptor *conn.Acceptor) {
	d.sessions.Abort()
	defer d.kill()
	force := time.AfterFunc(stopGrace, d.kill)
	defer force.Stop()
	d.agentSet.Stop(d.routes.Load().Agents())
	if left := acceptor.Wait(2*stopGrace, stopGrace); left > 0 {
		d.log.Warn("pmcd ends before the sessions of all clients have ended ({sessions} left); if there are rules for users or groups, the look-up of users may hang (getent group NAME)", "sessions", left)
	}
	d.sessions.Close()
	d.agentSet.Wait()
	d.limiter.Flush(true)
	d.log.Info("pmcd Shutdown")
}

// startAll starts all agents. When clients are served, it logs the tables of agents, rules
// and sockets.
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
	d.plain.Info(fmt.Sprintf("\npmcd: PID = %d, PDU version = 2", os.Getpid()), logtext.Event("pmcd_started"))
	d.plain.Info(d.cfg.Listeners.String(), logtext.Event("listen_table"))
	if ctx.Err() == nil {
		d.reportStarted()
	}
}

// stopGrace is how long agents, and reads of files, may take to end when the daemon ends.
// Sessions may take twice as long: after stopGrace their connections are closed.
const stopGrace = time.Second
