package pmcd

import (
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A Host is the daemon, as its own agent sees it.
//
// The methods are called inside a fetch or a store, so none may wait for I/O
// or for another agent, and none may call back into the Agent: what takes time
// (a reload, the log) is only asked for here. They are called by one goroutine
// at a time, while the daemon changes under them: an implementation locks or
// copies for itself.
//
// Values have been checked when a setter is called. Who may store what is the
// Agent's business too, by the UID of [ClientInfo]; the daemon has only decided
// before that the client may store at all.
type Host interface {
	// Status fills in s, which is the Agent's and is used again.
	Status(s *Status)

	// Agents appends the agents of pmcd.conf to dst, dead ones included, in
	// the order of configuration.
	Agents(dst []AgentInfo) []AgentInfo

	// Clients appends the connected clients to dst, by ascending Seq.
	Clients(dst []ClientInfo) []ClientInfo

	// Client returns the client that Origin.Client names; false if it has
	// gone.
	Client(num int32) (ClientInfo, bool)

	// Hostname returns the name of the host that a client observes: of the
	// container it chose, else what pmcd -H says, else gethostname(2).
	Hostname(client int32) string

	// Labels returns the JSON text of the labels from the label files, as of
	// the last time they were read; "" if there are none.
	Labels() string

	// SetWhoami and SetContainer store what a client says about itself; ""
	// resets. SetContainer also has the new attribute sent to the agents that
	// want attributes.
	SetWhoami(client int32, s string)
	SetContainer(client int32, name string)

	// SetFenced fences an agent off, or lets clients in again. It is never
	// called for the Agent itself; an agent that has gone meanwhile is ignored.
	SetFenced(domain int, on bool)

	// SetDebug replaces the debug options by those named in opts, separated by
	// commas; "" turns all off. A name that does not exist is PM_ERR_CONV, and
	// then nothing has changed.
	SetDebug(opts string) error

	SetTimeout(d time.Duration)      // pmcd -t; 0 is no timeout
	SetCredsTimeout(d time.Duration) // pmcd -q; above 0
	SetTrace(t Trace)                // all bits at once
	SetTraceBufs(n int)              // 0 to MaxTraceBufs; empties the ring; 0 keeps no events
	DumpTrace()                      // event trace to the log, and empty the ring
	DumpClients()                    // table of clients to the log
	Sighup()                         // as if the process had got SIGHUP; the log says that it was a store
	BumpSeqnum()                     // adds 1 to Status.Seqnum
}

// A Status is the state of the daemon in plain numbers, as of one moment.
type Status struct {
	PID     int    // of the serving process
	Agents  int    // connected agents, not ready ones included
	Clients int    // connected clients, the asking one included
	Sighups uint32 // SIGHUP signals since start
	Seqnum  uint32 // 1 at start, +1 for each agent that comes back

	Timeout      time.Duration // pmcd -t
	CredsTimeout time.Duration // pmcd -q
	Limits       Limits
	Debug        string // names of the debug options that are on
	Trace        Trace
	TraceBufs    int // size of the ring of trace events
	Features     Features

	// PDUs on all connections, to clients and to agents, since start. Nil
	// counts as none.
	PDUs *pdu.Counts
}

// Limits are what pmcd accepts from clients.
type Limits struct {
	InPDUSize uint32 // largest PDU, in bytes (pmcd -L)
	Contexts  uint32 // contexts a connection (pmcd -C)
	Metrics   uint32 // PMIDs in one fetch (pmcd -M)
}

// Trace says which events the daemon remembers (pmcd -T).
type Trace uint32

// The bits of a Trace.
const (
	TraceConn  Trace = 1 << 0 // connections: made, lost, failed
	TracePDU   Trace = 1 << 1 // each PDU sent and received
	TraceNoBuf Trace = 1 << 8 // to the log at once, not to the ring
)

// Features are the options of pmcd that pmcd.feature.* reports on. Each is
// what the greeting promises to clients, so it must be true.
type Features struct {
	Secure             bool // TLS is configured
	Compress           bool // never: retired
	IPv6               bool // the host can do it
	Authentication     bool // SASL is there
	CredsRequired      bool // clients must say who they are
	UnixDomainSockets  bool // the local socket is served
	ServiceDiscovery   bool // pmcd announces itself
	Containers         bool // clients may choose a container
	Local              bool // PMCD_LOCAL is set: the loopback interface only
	ClientCertRequired bool // clients must have a certificate (pmcd -Q)
}

// AgentInfo describes one agent of pmcd.conf.
type AgentInfo struct {
	Domain int
	Name   string // its label in pmcd.conf
	Kind   Kind
	Fenced bool

	// Status is 0 for a connected agent, 1 for one that is not ready; or else
	// why it is not there: bits 0-7 the reason (2 found dead, 4 not started, 8
	// protocol failure), bits 8-15 the exit code, bits 16-23 the signal.
	Status int32
}

// Kind is how an agent is reached, with the numbers of pmcd.agent.type.
type Kind uint32

// The kinds of agents. Bit 0 would say that an agent speaks ASCII; none does.
const (
	KindDSO    Kind = 0 << 1 // built-in agents and plugins too
	KindSocket Kind = 1 << 1
	KindPipe   Kind = 2 << 1
)

// ClientInfo describes one connected client.
type ClientInfo struct {
	Client    int32 // its number, as in agents.Origin
	Seq       int32 // connections before it since start; 0 again after MaxInt32
	UID       int64 // user, from the socket or by authentication; -1 if not known
	Started   time.Time
	Whoami    string // what it stored about itself, or ""
	Container string // the container it chose, or ""
}
