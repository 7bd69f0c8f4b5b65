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
	ConfigFile string    // pmcd.conf (-c); required, unless Embedded is set
	Namespace  Namespace // -n, -N; Path is required, unless Embedded is set
	// LabelDir is the directory with labels and labels.conf ($PCP_SYSCONF_DIR). If it is
	// "", there are only pmcd's own context labels.
	LabelDir string
	// TLSConf is tls.conf ($PCP_TLSCONF_PATH). If it is "", or if there is no such file,
	// TLS is off.
	TLSConf string
	// SASLHelper starts the process that serves logins, as saslhelper.Start does. If it is
	// nil, clients cannot log in.
	SASLHelper func(sock *os.File, probe bool) (*child.Process, error)
	// NoClearPasswords refuses logins that send a password in clear text, at the ports
	// without TLS.
	NoClearPasswords bool
	// If Embedded is set, it replaces the files above, of which only TLSConf is read then.
	// Its Conf and Names are required. CredsRequired does not apply to it: the access
	// rules are those of its Conf.
	Embedded  *Embedded
	Listeners *Listeners // required; Run closes them
	Watch     bool       // reload when one of the files above changes (--watch)

	CredsRequired bool // clients must state their account, whatever the access rules are (-S)
	CertRequired  bool // clients that are not local must have a certificate (-Q)

	// Limits for one client; 0 is the default.
	MaxPDU      int // size of the largest PDU, in bytes (-L); DefaultMaxPDU
	MaxContexts int // different context numbers with profiles (-C); DefaultMaxContexts
	MaxMetrics  int // PMIDs of one fetch (-M); DefaultMaxMetrics
	// MaxReply is the length of the longest reply, of an agent or to a client, in bytes
	// (--max-reply). 0 is DefaultMaxReply.
	MaxReply int

	// ClientMemory is how many bytes clients can make pmcd keep: for profiles, incomplete
	// requests, and replies that they do not read (--max-client-memory). 0 is
	// DefaultClientMemory.
	ClientMemory int64

	// MemoryLimit is how much memory pmcd and its agents may use together, in bytes: the
	// limit of their control group. 0 is no limit. The defaults of MaxReply and ClientMemory
	// follow it: see PartOf.
	MemoryLimit int64

	// Relays are the addresses of relays, such as pmproxy(1) (--relay). The connections from
	// another host are one client in fair queues and for limits. Each connection from a
	// relay is a client of its own.
	Relays []netip.Prefix

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

	// Problems returns the problems that the caller knows of: see Daemon.Problems.
	// AgentNote returns what an admin should know about the agent of a domain, to
	// be read after its name: "runs as pcp: /opt/x is writable by bob"; "" is
	// nothing. Both may be nil, and are called by any goroutine. The caller
	// calls Daemon.HealthChanged when what they return has changed while no agent has.
	Problems  func() []string
	AgentNote func(domain int) string

	Hostname string // value of pmcd.hostname (-H); "" is the host name of the system
	// ContainerHost returns the host name in a container, for pmcd.hostname. If it is
	// nil, clients of a container get the same value as other clients.
	ContainerHost func(ctx context.Context, container string) (string, error)

	Build     string // value of pmcd.build
	RunDir    string // $PCP_RUN_DIR; if it is "", no pmproxy and no primary pmie is found
	TmpDir    string // $PCP_TMP_DIR; if it is "", no pmlogger and no pmie is found
	Local     bool   // value of pmcd.feature.local (PMCD_LOCAL)
	TraceMask int    // events of the trace (-T)
	Debug     string // debug options (-D)

	// For a service manager; each may be nil. Calls do not overlap.
	Serving       func()       // before the first client is greeted
	Reloading     func()       // when a reload begins
	AgentsStarted func(Health) // when the agents of the start, or of a reload, have started or failed
	// Changed is called when the state of an agent or the list of problems has
	// changed: after the first AgentsStarted, not during a reload, unless that takes longer
	// than 30 seconds, and after a delay, so that it is not called often.
	Changed func(Health)

	Open OpenFunc // opens agents other than the built-in one of domain 2; required
	// Log receives the log. Lines without time and level have the attribute
	// logtext.Bare. If it is nil there is no log.
	Log *slog.Logger

	gethostname   func() (string, error)    // nil is os.Hostname
	hostnameEvery time.Duration             // see session.Config
	overdue       time.Duration             // a reload that takes longer is a problem
	addressEvery  time.Duration             // see checkAddresses
	sendBuffer    int                       // conn.Config.SendBuffer
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
	c.MaxPDU = cmp.Or(c.MaxPDU, DefaultMaxPDU)
	c.MaxContexts = cmp.Or(c.MaxContexts, DefaultMaxContexts)
	c.MaxMetrics = cmp.Or(c.MaxMetrics, DefaultMaxMetrics)
	part := func(n int64) int64 { return PartOf(n, c.MemoryLimit) }
	c.MaxReply = cmp.Or(c.MaxReply, int(part(DefaultMaxReply)))
	c.ClientMemory = cmp.Or(c.ClientMemory, part(DefaultClientMemory))
	if n := part(sendBuffer); n < sendBuffer {
		c.sendBuffer = int(n)
	}
	c.HandshakeTimeout = cmp.Or(c.HandshakeTimeout, DefaultHandshakeTimeout)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.overdue = cmp.Or(c.overdue, 30*time.Second)
	c.addressEvery = cmp.Or(c.addressEvery, defaultAddressEvery)
	if c.gethostname == nil {
		c.gethostname = os.Hostname
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
	if c.Embedded == nil {
		required("ConfigFile", c.ConfigFile != "")
		required("Namespace.Path", c.Namespace.Path != "")
	} else {
		required("Embedded.Conf", c.Embedded.Conf != nil)
		required("Embedded.Names", c.Embedded.Names != nil)
	}
	required("Listeners", c.Listeners != nil)
	required("Open", c.Open != nil)
	for _, f := range []struct {
		name     string
		negative bool
	}{
		{"MaxPDU", c.MaxPDU < 0},
		{"MaxContexts", c.MaxContexts < 0},
		{"MaxMetrics", c.MaxMetrics < 0},
		{"MaxReply", c.MaxReply < 0},
		{"RequestTimeout", c.RequestTimeout < 0},
		{"HandshakeTimeout", c.HandshakeTimeout < 0},
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
