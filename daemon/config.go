package daemon

import (
	"context"
	"log/slog"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/reload"
)

// A Config is what a Daemon needs to know. The zero value of a limit or a
// timeout is what pmcd(1) gives as its default only where that is said.
type Config struct {
	ConfigFile string    // pmcd.conf (-c)
	Namespace  Namespace // -n, -N
	LabelDir   string    // with labels and labels.conf ($PCP_SYSCONF_DIR)
	// Embedded is served in place of what is in files, which are then not
	// looked at. Its access rules are as CredsRequired says.
	Embedded  *Embedded
	Listeners *Listeners
	// PortableAcceptor selects the plain implementation of client connections: see
	// package conn.
	PortableAcceptor bool
	Watch            bool // reload when a file of the above changes (--watch)

	CredsRequired bool // clients must state their account, whatever the rules are (-S)
	CertRequired  bool // clients that are not local have to have a certificate (-Q)

	MaxPDU      int // largest PDU a client may send, in bytes (-L)
	MaxContexts int // different context numbers that one client may send profiles for (-C)
	MaxMetrics  int // PMIDs of one fetch (-M)

	RequestTimeout   time.Duration // for an agent to answer, and a client to complete a PDU; 0 is never (-t)
	HandshakeTimeout time.Duration // for an agent to start (-q)

	// LateGrace is how long an agent may be late before it is ended and started
	// again; 0 is 10 times the timeout for requests, below 0 is no time at all.
	LateGrace time.Duration
	NoRestart bool // agents that fail are started again by a reload only

	// Problems returns the problems that the caller knows of: see Daemon.Problems.
	// AgentNote returns what an admin should know about the agent of a domain, to
	// be read after its name: "runs as pcp: /opt/x is writable by bob"; "" is
	// nothing. Both may be nil, and are called by any goroutine. The caller
	// calls Daemon.HealthChanged when what they return has changed while no agent has.
	Problems  func() []string
	AgentNote func(domain int) string

	Hostname string // for pmcd.hostname; "" is the system's (-H)
	// ContainerHost returns what the host is called in a container; may be nil.
	ContainerHost func(ctx context.Context, container string) (string, error)

	Build     string // for pmcd.build
	RunDir    string // $PCP_RUN_DIR
	TmpDir    string // $PCP_TMP_DIR
	Local     bool   // for pmcd.feature.local (PMCD_LOCAL)
	TraceMask int    // -T
	Debug     string // -D, for pmcd.control.debug

	// For a service manager; may be nil. One is called at a time.
	Serving       func()       // clients are about to be greeted
	Reloading     func()       // a reload begins
	AgentsStarted func(Health) // its agents, and before that the first ones, are started or have failed
	// Changed is called when the state of an agent or the list of problems has
	// changed: after the first AgentsStarted, not during a reload, and some time
	// later, so that it is not called often.
	Changed func(Health)

	Open OpenFunc     // for agents other than the built-in one
	Log  *slog.Logger // lines without time and level have the attribute logtext.Bare

	gethostname   func() (string, error) // nil is os.Hostname
	hostnameEvery time.Duration          // see session.Config
}

// A Namespace says where the PMNS is.
type Namespace = reload.Namespace

// Embedded is what a Daemon serves that has no files to read. A reload leaves it
// as it is.
type Embedded = reload.Embedded
