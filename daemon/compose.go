package daemon

import (
	"time"

	"github.com/gopcp/pmcd/daemon/internal/labels"
	"github.com/gopcp/pmcd/daemon/internal/reload"
	"github.com/gopcp/pmcd/daemon/internal/session"
)

// newSessions returns the Server of clients.
func (d *Daemon) newSessions() *session.Server {
	return session.New(session.Config{
		Routes:         d.routes.Load,
		RequestTimeout: func() time.Duration { return time.Duration(d.timeout.Load()) },
		CertRequired:   d.cfg.CertRequired,
		TLS:            d.tls.Load,
		SASL:           d.sasl.Load,
		LookupUser:     lookUpUser,

		LoginTime:        d.cfg.loginTime,
		NoClearPasswords: d.cfg.NoClearPasswords,
		MaxPDU:           d.cfg.MaxPDU,
		MaxContexts:      d.cfg.MaxContexts,
		MaxMetrics:       d.cfg.MaxMetrics,
		ClientMemory:     d.cfg.ClientMemory,
		MaxInProgress:    PartOf(session.DefaultMaxInProgress, d.cfg.MemoryLimit),
		Relays:           d.cfg.Relays,
		MaxReply:         d.cfg.MaxReply,
		Labels:           d.labels,
		ContainerHost:    d.cfg.ContainerHost,
		Counts:           &d.counts,
		Log:              d.log,
		Limiter:          d.limiter,
		Trace:            d.trace,
		Debug:            d.debug,
	})
}

// newLabels returns the labels of the host, which are not read yet.
func (d *Daemon) newLabels() *labels.Host {
	cfg := labels.Config{
		Dir:           d.cfg.LabelDir,
		Hostname:      d.cfg.gethostname,
		HostnameEvery: d.cfg.hostnameEvery,
		Log:           d.log,
		Limiter:       d.limiter,
		Debug:         d.debug,
	}
	if e := d.cfg.Embedded; e != nil {
		cfg.Dir, cfg.List = "", e.Labels
	}
	return labels.New(cfg)
}

// newReloader returns what reads the configuration.
func (d *Daemon) newReloader() *reload.Reloader {
	return reload.New(reload.Config{
		ConfigFile:    d.cfg.ConfigFile,
		Namespace:     d.cfg.Namespace,
		LabelDir:      d.cfg.LabelDir,
		TLSConf:       d.cfg.TLSConf,
		Embedded:      d.cfg.Embedded,
		CredsRequired: d.cfg.CredsRequired,
		CertRequired:  d.cfg.CertRequired,
		Resolver:      d.cfg.resolver,
		Watch:         d.cfg.Watch,
		Routes:        &d.routes,
		TLS:           &d.tls,
		Agents:        d.agentSet,
		Clients:       d.sessions,
		Labels:        d.labels,
		Seqnum:        &d.seqnum,
		Overdue:       d.cfg.overdue,
		Reloading:     d.reportReloading,
		AgentsChanged: d.limitClients,
		AgentsStarted: d.reportStarted,
		Log:           d.log,
		Limiter:       d.limiter,
		Debug:         d.debug,
	})
}
