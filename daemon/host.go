package daemon

import (
	"os"
	"strings"
	"time"

	"github.com/gopcp/pmcd/agents/builtin/pmcd"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// host is the Daemon as its built-in agent sees it.
type host struct{ d *Daemon }

var _ pmcd.Host = host{}

func (h host) Status(st *pmcd.Status) {
	d := h.d
	*st = pmcd.Status{
		PID:          os.Getpid(),
		Clients:      d.clients.len(),
		Sighups:      d.sighups.Load(),
		Seqnum:       d.seqnum.Load(),
		Timeout:      time.Duration(d.timeout.Load()),
		CredsTimeout: time.Duration(d.credsTimeout.Load()),
		Limits: pmcd.Limits{
			InPDUSize: uint32(d.cfg.MaxPDU),
			Contexts:  uint32(d.cfg.MaxContexts),
			Metrics:   uint32(d.cfg.MaxMetrics),
		},
		PDUs:      &d.counts,
		Debug:     d.debug.Names(),
		Trace:     pmcd.Trace(d.trace.Mask()),
		TraceBufs: d.trace.Size(),
		Features: pmcd.Features{
			IPv6:               true,
			CredsRequired:      d.credsReqd.Load(),
			UnixDomainSockets:  d.cfg.Listeners.UnixPath() != "",
			Containers:         true,
			Local:              d.cfg.Local,
			ClientCertRequired: d.cfg.CertRequired,
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

func (h host) Clients(dst []pmcd.ClientInfo) []pmcd.ClientInfo {
	for _, s := range h.d.sessions() {
		dst = append(dst, s.info())
	}
	return dst
}

func (h host) Client(num int32) (pmcd.ClientInfo, bool) {
	s := h.d.clients.session(num)
	if s == nil {
		return pmcd.ClientInfo{}, false
	}
	return s.info(), true
}

func (s *session) info() pmcd.ClientInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := pmcd.ClientInfo{
		Client:    s.num,
		Seq:       int32(s.seq),
		UID:       -1,
		Started:   s.since,
		Whoami:    s.whoami,
		Container: s.container,
	}
	if p := s.conn.Peer(); p.Unix {
		info.UID = int64(p.UID)
	}
	return info
}

// Hostname is that of the client's container, if it has chosen one that is known.
func (h host) Hostname(client int32) string {
	if s := h.d.clients.session(client); s != nil {
		if name := s.observed.Load(); name != nil {
			return *name
		}
	}
	if h.d.cfg.Hostname != "" {
		return h.d.cfg.Hostname
	}
	return h.d.hostname.current()
}

func (h host) Labels() string { return h.d.labels.text() }

func (h host) SetWhoami(client int32, text string) {
	if s := h.d.clients.session(client); s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.whoami = text
	}
}

func (h host) SetContainer(client int32, name string) {
	s := h.d.clients.session(client)
	if s == nil {
		return
	}
	s.mu.Lock()
	s.container = name
	s.contained = s.contained || name != ""
	s.mu.Unlock()
	s.announce()
}

func (h host) SetFenced(domain int, on bool) {
	if a := h.d.routes.Load().Agent(domain); a != nil {
		if !on {
			h.d.namesBack(domain)
		}
		a.SetFenced(on)
	}
}

func (h host) SetDebug(opts string) error {
	names, err := pmcdconf.ParseDebug(opts)
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
	h.d.logClients("->Current PMCD clients at " + time.Now().Format(time.ANSIC))
}
func (h host) BumpSeqnum() { h.d.seqnum.Add(1) }

func (h host) Sighup() {
	h.d.log.Info("pmcd reset via pmcd.control.sighup")
	h.d.Reload()
}
