package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"github.com/gopcp/pmcd/agents/builtin/pmcd"
	"github.com/gopcp/pmcd/daemon/internal/reload"
	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A Config is the configuration of a Daemon. The comment of a field says what its zero
// value means. A field without such a comment is optional, and its zero value means
// false or none.
type Config struct {
	Listeners *Listeners // required; Run closes them
	Files     Files
	Limits    Limits
	Agents    Agents
	Security  Security
	Host      Host
	Manager   Manager

	// Log receives the log. Lines without time and level have the attribute
	// logtext.Bare. If it is nil there is no log.
	Log       *slog.Logger
	TraceMask int    // events of the trace (-T)
	Debug     string // debug options (-D)

	hooks hooks
}

// Files are what a Daemon reads at its start and at a reload.
type Files struct {
	Conf      string    // pmcd.conf (-c); required, unless Embedded is set
	Namespace Namespace // -n, -N; Path is required, unless Embedded is set
	// Labels is the directory with labels and labels.conf ($PCP_SYSCONF_DIR). If it is
	// "", there are only pmcd's own context labels.
	Labels string
	// TLS is tls.conf ($PCP_TLSCONF_PATH). If it is "", or if there is no such file,
	// TLS is off.
	TLS string
	// If Embedded is set, it replaces the files above, of which only TLS is read then.
	// Its Conf and Names are required. Security.CredsRequired does not apply to it: the access
	// rules are those of its Conf.
	Embedded *Embedded
	Watch    bool // reload when one of the files above changes (--watch)
}

// Limits are those of clients. 0 is the default.
type Limits struct {
	PDU      int // size of the largest PDU, in bytes (-L); DefaultMaxPDU
	Contexts int // different context numbers with profiles of a client (-C); DefaultMaxContexts
	Metrics  int // PMIDs of one fetch (-M); DefaultMaxMetrics
	// Reply is the length of the longest reply, of an agent or to a client, in bytes
	// (--max-reply); DefaultMaxReply.
	Reply int
	// ClientMemory is how many bytes clients can make pmcd keep: for profiles, incomplete
	// requests, and replies that they do not read (--max-client-memory);
	// DefaultClientMemory.
	ClientMemory int64
	// Memory is how much memory pmcd and its agents may use together, in bytes: the
	// limit of their control group. 0 is no limit. The defaults of Reply and ClientMemory
	// follow it: see PartOf.
	Memory int64
	// Relays are the addresses of relays, such as pmproxy(1) (--relay). The connections from
	// another host are one client in fair queues and for limits. Each connection from a
	// relay is a client of its own.
	Relays []netip.Prefix
}

// Agents says how a Daemon starts and calls agents.
type Agents struct {
	Open OpenFunc // opens agents other than the built-in one of domain 2; required
	// RequestTimeout is how long an agent may take to reply, and a client to complete a
	// PDU (-t). If it is 0 there is no limit.
	RequestTimeout time.Duration
	// HandshakeTimeout is how long an agent may take to start (-q). 0 is
	// DefaultHandshakeTimeout.
	HandshakeTimeout time.Duration
	// LateGrace is how long an agent may be late before it is stopped and restarted. 0
	// is 10 times RequestTimeout. If it is negative, the agent is stopped at once.
	LateGrace time.Duration
	NoRestart bool // only a reload restarts agents that have failed
	// Ending is closed before a shutdown that also stops agents. Failures of agents after
	// that are not logged, and no agent is restarted. It may be nil.
	Ending <-chan struct{}
	// Note returns what an admin should know about the agent of a domain, to be read
	// after its name: "runs as pcp: /opt/x is writable by bob"; "" is nothing. It may be
	// nil, and is called by any goroutine. The caller calls Daemon.HealthChanged when what
	// it returns has changed while no agent has.
	Note func(domain int) string
}

// Security says what clients must prove.
type Security struct {
	CredsRequired bool // clients must state their account, whatever the access rules are (-S)
	CertRequired  bool // clients that are not local must have a certificate (-Q)
	// NoClearPasswords refuses logins that send a password in clear text, at the ports
	// without TLS.
	NoClearPasswords bool
	// SASLHelper starts the process that serves logins, as saslhelper.Start does. If it is
	// nil, clients cannot log in.
	SASLHelper func(sock *os.File, probe bool) (*child.Process, error)
}

// Host is what metrics of pmcd itself say of this host and this program.
type Host struct {
	Name string // value of pmcd.hostname (-H); "" is the host name of the system
	// ContainerName returns the host name in a container, for pmcd.hostname. If it is
	// nil, clients of a container get the same value as other clients.
	ContainerName func(ctx context.Context, container string) (string, error)
	Build         string // value of pmcd.build
	RunDir        string // $PCP_RUN_DIR; if it is "", no pmproxy and no primary pmie is found
	TmpDir        string // $PCP_TMP_DIR; if it is "", no pmlogger and no pmie is found
	Local         bool   // value of pmcd.feature.local (PMCD_LOCAL)
}

// Manager has functions of a service manager; each may be nil. Calls of all but Problems do
// not overlap.
type Manager struct {
	Serving       func()       // before the first client is greeted
	Reloading     func()       // when a reload begins
	AgentsStarted func(Health) // when the agents of the start, or of a reload, have started or failed
	// Changed is called when the state of an agent or the list of problems has
	// changed: after the first AgentsStarted, not during a reload, unless that takes longer
	// than 30 seconds, and after a delay, so that it is not called often.
	Changed func(Health)
	// Problems returns the problems that the caller knows of: see Daemon.Problems. It is
	// called by any goroutine. The caller calls Daemon.HealthChanged when they have changed.
	Problems func() []string
}

// hooks are what tests replace.
type hooks struct {
	gethostname   func() (string, error)    // nil is os.Hostname
	hostnameEvery time.Duration             // see session.Config
	overdue       time.Duration             // a reload that takes longer is a problem
	addressEvery  time.Duration             // see checkAddresses
	resolver      pmcdconf.Resolver         // of pmcd.conf; nil is the system's
	wrapHost      func(pmcd.Host) pmcd.Host // nil is not at all
	loginTime     time.Duration             // see session.Config
	saslTimeout   time.Duration             // see sasl.Options.Timeout
}

// Defaults of pmcd(1).
const (
	DefaultMaxPDU           = 64 << 10
	DefaultMaxContexts      = 64
	DefaultMaxMetrics       = 32 << 10
	DefaultMaxReply         = transport.DefaultMaxReply
	DefaultClientMemory     = 96 << 20
	DefaultRequestTimeout   = 5 * time.Second // of -t; in a Config, 0 is no limit
	DefaultHandshakeTimeout = 3 * time.Second
)

// enoughMemory is the limit of memory, in bytes, from which on all limits have their defaults.
// What is limited, with the spare memory of the Go runtime, takes half of it at most. The rest is
// for agents, idle clients and pmcd itself.
const enoughMemory = 512 << 20

// sendBuffer is the value of SO_SNDBUF that gives a socket what Linux gives it by default: twice
// as much. A control group is charged for what is in it.
const sendBuffer = 104 << 10

// sendBuffer returns conn.Config.SendBuffer: 0 is what Linux gives.
func (l *Limits) sendBuffer() int {
	if n := PartOf(sendBuffer, l.Memory); n < sendBuffer {
		return int(n)
	}
	return 0
}

// PartOf returns how much of n, a default in bytes or a number, is used if the memory of pmcd and
// its agents is limited to so many bytes: n * limit / 512 MiB, and all of it from 512 MiB on. Limit 0 is
// no limit.
func PartOf(n, limit int64) int64 {
	if limit <= 0 || limit >= enoughMemory {
		return n
	}
	return max(1, n*limit/enoughMemory)
}

// setDefaults replaces the zero values that stand for a default.
func (c *Config) setDefaults() {
	c.Limits.PDU = cmp.Or(c.Limits.PDU, DefaultMaxPDU)
	c.Limits.Contexts = cmp.Or(c.Limits.Contexts, DefaultMaxContexts)
	c.Limits.Metrics = cmp.Or(c.Limits.Metrics, DefaultMaxMetrics)
	part := func(n int64) int64 { return PartOf(n, c.Limits.Memory) }
	c.Limits.Reply = cmp.Or(c.Limits.Reply, int(part(DefaultMaxReply)))
	c.Limits.ClientMemory = cmp.Or(c.Limits.ClientMemory, part(DefaultClientMemory))
	c.Agents.HandshakeTimeout = cmp.Or(c.Agents.HandshakeTimeout, DefaultHandshakeTimeout)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.hooks.overdue = cmp.Or(c.hooks.overdue, 30*time.Second)
	c.hooks.addressEvery = cmp.Or(c.hooks.addressEvery, defaultAddressEvery)
	if c.hooks.gethostname == nil {
		c.hooks.gethostname = os.Hostname
	}
}

// check returns an error for values that cannot be used.
func (c *Config) check() error {
	var errs []error
	required := func(name string, set bool) {
		if !set {
			errs = append(errs, fmt.Errorf("%s is not set", name))
		}
	}
	if c.Files.Embedded == nil {
		required("Files.Conf", c.Files.Conf != "")
		required("Files.Namespace.Path", c.Files.Namespace.Path != "")
	} else {
		required("Files.Embedded.Conf", c.Files.Embedded.Conf != nil)
		required("Files.Embedded.Names", c.Files.Embedded.Names != nil)
	}
	required("Listeners", c.Listeners != nil)
	required("Agents.Open", c.Agents.Open != nil)
	for _, f := range []struct {
		name     string
		negative bool
	}{
		{"Limits.PDU", c.Limits.PDU < 0},
		{"Limits.Contexts", c.Limits.Contexts < 0},
		{"Limits.Metrics", c.Limits.Metrics < 0},
		{"Limits.Reply", c.Limits.Reply < 0},
		{"Agents.RequestTimeout", c.Agents.RequestTimeout < 0},
		{"Agents.HandshakeTimeout", c.Agents.HandshakeTimeout < 0},
	} {
		if f.negative {
			errs = append(errs, fmt.Errorf("%s is negative", f.name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("daemon.Config: %w", err)
	}
	return nil
}

// A Namespace says where the PMNS is.
type Namespace = reload.Namespace

// Embedded is a configuration that is not in files. A reload does not change it.
type Embedded = reload.Embedded

// A Mistake is the error of New and Run if an admin must change a file of the
// configuration before a daemon can start.
type Mistake = reload.Mistake
