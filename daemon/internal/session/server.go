// Package session serves clients. It keeps the protocol state of each client, and answers
// the client's requests with the replies of agents.
//
// A [Server] makes a session for each connection, and has what sessions share. A session
// handles one PDU after the other, in a request that has the buffers. A handler, for each
// family of requests, gets what it needs and returns the reply, or an error whose code is the
// reply. It asks agents through a calls.Caller.
//
// The package does not accept connections (see conn), does not start agents (see
// agentset) and reads no configuration.
package session

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/daemon/internal/calls"
	"github.com/gopcp/pmcd/daemon/internal/clients"
	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/labels"
	"github.com/gopcp/pmcd/daemon/internal/names"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/daemon/internal/sasl"
	"github.com/gopcp/pmcd/daemon/internal/slots"
	"github.com/gopcp/pmcd/daemon/internal/tlspolicy"
	"github.com/gopcp/pmcd/internal/fairqueue"
	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// A Config is the configuration of a Server. All functions and pointers must be set, except
// ContainerHost.
type Config struct {
	// Routes returns the current table. A request loads it at its beginning, and again if
	// a reload has replaced an agent that it needs.
	Routes func() *routes.Table
	// RequestTimeout returns the time that an agent has to answer and a client to
	// complete a PDU; 0 is for ever. Clients can change it (pmcd.control.timeout).
	RequestTimeout func() time.Duration

	CertRequired bool // clients that are not local have to have a certificate (-Q)
	// TLS returns the TLS policy, or nil if TLS is off. A reload can change it. TLS may be
	// nil.
	TLS func() *tlspolicy.Server

	// SASL returns what serves logins, or nil. It may be nil, as may LookupUser then.
	SASL func() *sasl.Host
	// LookupUser returns the uid and the primary gid of a user.
	LookupUser func(name string) (uid, gid uint32, err error)
	// LoginTime is how long a client may take for each message of a login; 0 is
	// DefaultLoginTime.
	LoginTime time.Duration
	// NoClearPasswords refuses mechanisms that send passwords in clear text, on
	// connections to a port without TLS.
	NoClearPasswords bool

	MaxPDU      int // largest PDU a client may send, in bytes (-L)
	MaxContexts int // different context numbers that one client may send profiles for (-C)
	MaxMetrics  int // PMIDs of one fetch (-M)
	MaxReply    int // longest reply to a client, in bytes

	// ClientMemory is how many bytes clients can make pmcd keep: a quarter of it for profiles, a
	// twelfth for incomplete requests, and the rest for unread replies.
	ClientMemory int64

	// MaxInProgress is how many clients may have a request in progress; 0 is
	// DefaultMaxInProgress.
	MaxInProgress int64

	// Relays are the addresses of relays, such as pmproxy(1): each connection from there
	// is of another client.
	Relays []netip.Prefix

	Labels *labels.Host
	// ContainerHost returns what the host is called in a container.
	ContainerHost func(ctx context.Context, container string) (string, error)

	Counts  *pdu.Counts  // of PDUs to and from clients
	Log     *slog.Logger // lines without time and level have the attribute logtext.Bare
	Limiter *diag.LogLimiter
	Trace   *diag.Trace
	Debug   *diag.Debug
}

// A Server serves all clients. Any goroutine may call its methods.
type Server struct {
	Clients clients.List // those that are connected
	Missing names.Missing

	cfg        Config
	plain      *slog.Logger
	accepted   atomic.Uint64 // connections, for newKey
	admission  admission
	calls      calls.Config
	coroutines transport.CoroutinePool
	limits     limits
	inProgress *fairqueue.Limiter // of the sessions with a request
	slots      *slots.Pool
	tls        conn.TLS
	serving    context.Context // ends by Abort
	abort      context.CancelFunc
	hashSeed   uint32 // of tables of PMIDs
}

// New returns a Server without clients. It has no access rules yet: see ApplyRules.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, plain: cfg.Log.With(logtext.Bare()), slots: slots.New(), hashSeed: rand.Uint32()}
	s.admission.counter, s.admission.certRequired, s.admission.tls = access.NewCounter(new(access.List)), cfg.CertRequired, cfg.TLS
	s.cfg.LoginTime = cmp.Or(cfg.LoginTime, DefaultLoginTime)
	s.limits.set(cfg.ClientMemory)
	s.inProgress = fairqueue.NewSharing(cmp.Or(cfg.MaxInProgress, DefaultMaxInProgress))
	s.tls.Timeout = cfg.RequestTimeout
	s.admission.sasl = cfg.SASL
	if cfg.SASL == nil {
		s.admission.sasl = func() *sasl.Host { return nil }
	}
	s.serving, s.abort = context.WithCancel(context.Background())
	s.Missing.Routes, s.Missing.Timeout = cfg.Routes, cfg.RequestTimeout
	c := &s.calls
	c.Routes, c.Timeout, c.MaxReply, c.Limiter, c.Trace = cfg.Routes, cfg.RequestTimeout, cfg.MaxReply, cfg.Limiter, cfg.Trace
	return s
}

// Accept implements conn.Handler.
func (s *Server) Accept(c conn.Conn) (conn.Session, []byte) {
	n := newSession(s, c)
	s.Clients.Add(n.client)
	return n, n.accept()
}

// NumClients returns how many clients are connected.
func (s *Server) NumClients() int { return s.Clients.Len() }

// LogClients logs the table of clients, under a title.
func (s *Server) LogClients(title string) { s.Clients.Log(s.plain, title) }

// Resize makes the numbers of requests, of TLS handshakes and of logins that are computed at a time
// follow GOMAXPROCS. It returns those of requests and of handshakes.
func (s *Server) Resize() (requests int, handshakes int64) {
	s.tls.Resize()
	if h := s.admission.sasl(); h != nil {
		h.Resize()
	}
	_, handshakes = s.tls.Handshakes()
	return s.slots.Resize(), handshakes
}

// Busy implements conn.Handler: it reports whether requests wait for slots at the moment.
func (s *Server) Busy() bool { return s.slots.Busy() }

// Abort aborts the connections of all clients. The sessions end by that.
func (s *Server) Abort() {
	s.abort()
	s.calls.Ended.Store(true)
	s.inProgress.Open() // those that wait there, and for slots, do no more work
	s.slots.Close()
	for _, client := range s.Clients.All() {
		client.Conn.Abort()
	}
}

// Close ends what serves requests. All connections have ended, but those whose sessions hang in
// a look-up of a user. Agents are being stopped: the probes end with them.
func (s *Server) Close() {
	s.slots.Close()
	s.coroutines.Close()
	s.Missing.Wait()
}

// IdleCoroutines returns the number of goroutines that are kept for requests to come.
func (s *Server) IdleCoroutines() int { return s.coroutines.Idle() }

// Notify notifies all clients of state changes with their next fetch.
func (s *Server) Notify(bits int32) {
	if bits != 0 {
		s.cfg.Debug.Log(diag.DebugState, "state change for all clients: {change}", "change", diag.StateChanges(bits))
	}
	s.Clients.Notify(bits)
}

// CheckHostname looks at the name of the host, and notifies clients of a change
// (PMCD_HOSTNAME_CHANGE).
func (s *Server) CheckHostname(now time.Time) {
	if s.cfg.Labels.CheckHostname(now) {
		s.Notify(pdu.StateHostname)
	}
}
