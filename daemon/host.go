package daemon

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/gopcp/pmcd/agents/builtin/pmcd"
	"github.com/gopcp/pmcd/daemon/internal/clients"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmcdconf/debugopt"
)

// A host implements pmcd.Host, through which the built-in agent reads the Daemon's state.
type host struct{ d *Daemon }

var _ pmcd.Host = host{}

func (h host) Status(st *pmcd.Status) {
	d := h.d
	*st = pmcd.Status{
		PID:          os.Getpid(),
		Clients:      d.sessions.NumClients(),
		Sighups:      d.reloader.Status().Count,
		Seqnum:       d.seqnum.Load(),
		Timeout:      time.Duration(d.timeout.Load()),
		CredsTimeout: time.Duration(d.credsTimeout.Load()),
		Limits: pmcd.Limits{
			InPDUSize: uint32(d.cfg.Limits.PDU),
			Contexts:  uint32(d.cfg.Limits.Contexts),
			Metrics:   uint32(d.cfg.Limits.Metrics),
		},
		PDUs:      &d.counts,
		Debug:     d.debug.Names(),
		Trace:     pmcd.Trace(d.trace.Mask()),
		TraceBufs: d.trace.Size(),
		Features: pmcd.Features{
			IPv6:               true,
			Secure:             d.sessions.Secure(),
			Authentication:     d.sessions.CanLogIn(),
			CredsRequired:      d.sessions.CredsRequired(),
			UnixDomainSockets:  d.cfg.Listeners.UnixPath() != "",
			Containers:         true,
			Local:              d.cfg.Host.Local,
			ClientCertRequired: d.cfg.Security.CertRequired,
		},
	}
	for _, a := range d.routes.Load().Agents() {
		if a.Conn() != nil {
			st.Agents++
		}
	}
}

func (h host) Agents(dst []pmcd.AgentInfo) []pmcd.AgentInfo {
	for _, a := range h.d.routes.Load().Agents() {
		spec := a.Spec()
		kind := pmcd.KindDSO
		switch spec.Kind {
		case pmcdconf.Socket:
			kind = pmcd.KindSocket
		case pmcdconf.Pipe:
			kind = pmcd.KindPipe
		}
		dst = append(dst, pmcd.AgentInfo{
			Domain: a.Domain,
			Name:   spec.Name,
			Kind:   kind,
			Fenced: a.Fenced(),
			Status: a.StatusCode(),
		})
	}
	return dst
}

func (h host) Clients(ctx context.Context, dst []pmcd.ClientInfo, p pdu.InDomProfile) ([]pmcd.ClientInfo, error) {
	err := h.d.sessions.Clients.Some(ctx, p, func(c clients.Info) { dst = append(dst, clientInfo(c)) })
	return dst, err
}

func (h host) ClientSeqs() []int32 { return h.d.sessions.Clients.Seqs() }

func (h host) Client(num int32) (pmcd.ClientInfo, bool) {
	c, ok := h.d.sessions.Clients.Info(num)
	return clientInfo(c), ok
}

// clientInfo returns c as the built-in agent knows it.
func clientInfo(c clients.Info) pmcd.ClientInfo {
	return pmcd.ClientInfo{
		Client:    c.Number,
		Seq:       int32(c.Seq),
		UID:       c.UID,
		Started:   c.Since,
		Whoami:    c.Whoami,
		Container: c.Container,
	}
}

// Hostname is that of the client's container, if it has chosen one that is known.
func (h host) Hostname(client int32) string {
	if c := h.d.sessions.Clients.Client(client); c != nil {
		if name := c.Container.Hostname.Load(); name != nil {
			return *name
		}
	}
	if h.d.cfg.Host.Name != "" {
		return h.d.cfg.Host.Name
	}
	return h.d.labels.Hostname()
}

func (h host) Labels() string { return h.d.labels.Text() }

func (h host) SetWhoami(client int32, text string) { h.d.sessions.Clients.SetWhoami(client, text) }

// SetContainer is called on the goroutine of the client's session.
func (h host) SetContainer(client int32, name string) {
	if c := h.d.sessions.Clients.Client(client); c != nil {
		c.Container.Set(name)
		c.SendAttrs(h.d.routes.Load, h.d.debug)
	}
}

func (h host) SetFenced(domain int, on bool) {
	if a := h.d.routes.Load().Agent(domain); a != nil {
		if !on {
			h.d.sessions.Missing.Back(domain)
		}
		a.SetFenced(on)
	}
}

func (h host) SetDebug(opts string) error {
	names, err := debugopt.Parse(opts)
	if err != nil {
		return pdu.ErrnoConv
	}
	h.d.debug.Set(strings.Join(names, ","))
	return nil
}

func (h host) SetTimeout(t time.Duration)      { h.d.timeout.Store(int64(t)) }
func (h host) SetCredsTimeout(t time.Duration) { h.d.credsTimeout.Store(int64(t)) }
func (h host) SetTrace(t pmcd.Trace)           { h.d.trace.SetMask(int(t)) }
func (h host) SetTraceBufs(n int)              { h.d.trace.Resize(n) }
func (h host) DumpTrace()                      { h.d.trace.Dump() }
func (h host) DumpClients() {
	h.d.sessions.LogClients("->Current PMCD clients at " + time.Now().Format(time.ANSIC))
}
func (h host) BumpSeqnum() { h.d.seqnum.Add(1) }

func (h host) Sighup() {
	h.d.log.Info("pmcd reset via pmcd.control.sighup")
	h.d.Reload()
}
