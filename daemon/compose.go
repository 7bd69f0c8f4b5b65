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
		CertRequired:   d.cfg.Security.CertRequired,
		TLS:            d.tls.Load,
		SASL:           d.sasl.Load,
		LookupUser:     lookUpUser,

		LoginTime:        d.cfg.hooks.loginTime,
		NoClearPasswords: d.cfg.Security.NoClearPasswords,
		MaxPDU:           d.cfg.Limits.PDU,
		MaxContexts:      d.cfg.Limits.Contexts,
		MaxMetrics:       d.cfg.Limits.Metrics,
		ClientMemory:     d.cfg.Limits.ClientMemory,
		MaxInProgress:    PartOf(session.DefaultMaxInProgress, d.cfg.Limits.Memory),
		Relays:           d.cfg.Limits.Relays,
		MaxReply:         d.cfg.Limits.Reply,
		Labels:           d.labels,
		ContainerHost:    d.cfg.Host.ContainerName,
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
		Dir:           d.cfg.Files.Labels,
		Hostname:      d.cfg.hooks.gethostname,
		HostnameEvery: d.cfg.hooks.hostnameEvery,
		Log:           d.log,
		Limiter:       d.limiter,
		Debug:         d.debug,
	}
	if e := d.cfg.Files.Embedded; e != nil {
		cfg.Dir, cfg.List = "", e.Labels
	}
	return labels.New(cfg)
}

// newReloader returns what reads the configuration.
func (d *Daemon) newReloader() *reload.Reloader {
	return reload.New(reload.Config{
		ConfigFile:    d.cfg.Files.Conf,
		Namespace:     d.cfg.Files.Namespace,
		LabelDir:      d.cfg.Files.Labels,
		TLSConf:       d.cfg.Files.TLS,
		Embedded:      d.cfg.Files.Embedded,
		CredsRequired: d.cfg.Security.CredsRequired,
		CertRequired:  d.cfg.Security.CertRequired,
		Resolver:      d.cfg.hooks.resolver,
		Watch:         d.cfg.Files.Watch,
		Routes:        &d.routes,
		TLS:           &d.tls,
		Agents:        d.agentSet,
		Clients:       d.sessions,
		Labels:        d.labels,
		Seqnum:        &d.seqnum,
		Overdue:       d.cfg.hooks.overdue,
		Reloading:     d.reportReloading,
		AgentsChanged: d.limitClients,
		AgentsStarted: d.reportStarted,
		Log:           d.log,
		Limiter:       d.limiter,
		Debug:         d.debug,
	})
}
