package pmcd

import (
	"context"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A Host gives the agent access to the daemon that it is part of.
//
// The methods are called during a fetch or a store, so they must not wait for I/O
// or for another agent, and must not call the Agent. A reload and output to the log
// take time: the methods only start them. They are called by several goroutines at a
// time, so an implementation must lock or copy the state that it reads. Setters are
// called one at a time.
//
// The Agent validates values before it calls a setter. It also decides which
// metrics a client may store, by the UID in [ClientInfo]; the daemon has decided
// before whether the client may store at all.
type Host interface {
	// Status fills in s, which belongs to the caller and is reused.
	Status(s *Status)

	// Agents appends the agents of pmcd.conf to dst, including those that have
	// failed, in the order of pmcd.conf.
	Agents(dst []AgentInfo) []AgentInfo

	// Clients appends to dst, by ascending Seq, those of the connected clients whose
	// Seq is an instance that p selects. There may be many: it calls
	// the error of its context, and returns it.
	Clients(ctx context.Context, dst []ClientInfo, p pdu.InDomProfile) ([]ClientInfo, error)

	// ClientSeqs returns the Seq of each connected client, in ascending order.
	ClientSeqs() []int32

	// Client returns the client with the number Origin.Client; false if it has
	// disconnected.
	Client(num int32) (ClientInfo, bool)

	// Hostname returns the name of the host that a client observes: the host name
	// of the container that it has chosen, else that given by pmcd -H, else that of
	// gethostname(2).
	Hostname(client int32) string

	// Labels returns the JSON text of the labels that were last read from the
	// label files; "" if there are none.
	Labels() string

	// SetWhoami and SetContainer set a client's description of itself and its
	// container; "" removes them. SetContainer also sends the new attribute to the
	// agents that receive attributes.
	SetWhoami(client int32, s string)
	SetContainer(client int32, name string)

	// SetFenced fences an agent, or removes the fence. It is never called for the
	// Agent itself. A domain without an agent is ignored.
	SetFenced(domain int, on bool)

	// SetDebug replaces the debug options by those in opts, whose names are
	// separated by commas; "" turns all off. If opts has an unknown name it returns
	// PM_ERR_CONV and changes nothing.
	SetDebug(opts string) error

	SetTimeout(d time.Duration)      // pmcd -t; 0 is no timeout
	SetCredsTimeout(d time.Duration) // pmcd -q; above 0
	SetTrace(t Trace)                // all bits at once
	SetTraceBufs(n int)              // 0 to MaxTraceBufs; empties the ring; 0 keeps no events
	DumpTrace()                      // writes the trace events to the log and empties the ring
	DumpClients()                    // writes the table of clients to the log
	Sighup()                         // does what SIGHUP does; the log says that it was a store
	BumpSeqnum()                     // adds 1 to Status.Seqnum
}

// A Status is a snapshot of the daemon's state.
type Status struct {
	PID     int    // of the daemon
	Agents  int    // connected agents, including those that are not ready
	Clients int    // connected clients, including the one that fetches
	Sighups uint32 // SIGHUP signals since start
	Seqnum  uint32 // 1 at start, plus 1 for each agent that is started again

	Timeout      time.Duration // pmcd -t
	CredsTimeout time.Duration // pmcd -q
	Limits       Limits
	Debug        string // names of the debug options that are on
	Trace        Trace
	TraceBufs    int // size of the ring of trace events
	Features     Features

	// PDUs counts the PDUs on all connections, to clients and to agents, since
	// start. Nil stands for no PDUs.
	PDUs *pdu.Counts
}

// Limits are what pmcd accepts from clients.
type Limits struct {
	InPDUSize uint32 // largest PDU, in bytes (pmcd -L)
	Contexts  uint32 // contexts a connection (pmcd -C)
	Metrics   uint32 // PMIDs in one fetch (pmcd -M)
}

// Trace says which events the daemon records (pmcd -T).
type Trace uint32

// The bits of a Trace.
const (
	TraceConn  Trace = 1 << 0 // connections made, lost and failed
	TracePDU   Trace = 1 << 1 // each PDU sent and received
	TraceNoBuf Trace = 1 << 8 // write events to the log at once, not to the ring
)

// Features are the values of pmcd.feature.*. They must agree with the features
// that pmcd announces in the handshake with a client.
type Features struct {
	Secure             bool // TLS is configured
	Compress           bool // always false: PCP has retired it
	IPv6               bool // the host supports it
	Authentication     bool // SASL is available
	CredsRequired      bool // clients must authenticate
	UnixDomainSockets  bool // the local socket is served
	ServiceDiscovery   bool // pmcd announces itself
	Containers         bool // clients may choose a container
	Local              bool // PMCD_LOCAL is set: pmcd listens on the loopback interface only
	ClientCertRequired bool // clients must have a certificate (pmcd -Q)
}

// AgentInfo describes one agent of pmcd.conf.
type AgentInfo struct {
	Domain int
	Name   string // its label in pmcd.conf
	Kind   Kind
	Fenced bool

	// Status is 0 for a connected agent and 1 for one that is not ready. Any other
	// value says why there is no connection: bits 0-7 have the reason (2 found
	// dead, 4 not started, 8 protocol failure), bits 8-15 the exit code, bits
	// 16-23 the signal.
	Status int32
}

// Kind is how pmcd communicates with an agent: the values of pmcd.agent.type.
type Kind uint32

// The kinds of agents. Bit 0 is reserved for agents with the ASCII protocol, which
// no longer exist.
const (
	KindDSO    Kind = 0 << 1 // also built-in agents and plugins
	KindSocket Kind = 1 << 1
	KindPipe   Kind = 2 << 1
)

// ClientInfo describes one connected client.
type ClientInfo struct {
	Client    int32 // its number, as in agents.Origin
	Seq       int32 // number of connections before it since start; 0 again after MaxInt32
	UID       int64 // user, from the socket or by authentication; -1 if not known
	Started   time.Time
	Whoami    string // its description of itself, or ""
	Container string // the container that it has chosen, or ""
}
