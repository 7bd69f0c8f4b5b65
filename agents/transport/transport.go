// Package transport is how pmcd reaches an agent.
//
// A [Transport] carries requests to one agent and replies back. [Local] and
// [Inline] make one of an Agent in this process; package wire has one for a PMDA
// behind pipes or a socket. Requests and replies are PDUs in all cases, so the
// daemon has one way to serve a client, and value sets stay in wire form from the
// agent to the client.
package transport

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// A Transport carries requests to one agent and its replies back.
//
// A goroutine that has a request calls Send and, if that succeeds, must call
// Recv of the Reply once. Between the two it may Send other Calls, to this or
// other agents, but must not wait for anything else. Several goroutines may use
// a Transport; each has its Call to itself.
//
// Errors other than [ErrLate] and [ErrNotReady] are terminal: Send and Recv
// return the error from then on. An ERROR PDU is a reply like any other, not
// an error.
//
// A Transport may be an [IdleChecker] and an [AbandonCounter], too.
type Transport interface {
	// Send sends c.Req and, before it, c.Profile if that is not the one the
	// agent has; nothing comes between the two. It waits while as many
	// requests as the Transport allows are outstanding, for no longer than
	// c.Timeout. Replies come in the order of the Sends.
	Send(c *Call) (Reply, error)

	// Notify passes on what has no reply. It does not wait: a Notice is
	// delivered at once if the agent is idle, and in any case before the next
	// request, whatever state the agent is in.
	Notify(n Notice)

	// WantsAttrs reports whether the agent asked for client attributes.
	WantsAttrs() bool

	// State reports what the agent can do, unless the Transport has ended.
	State() State

	// Pending reports the oldest request that the agent has not answered. Of a
	// Transport that has ended it is the one that was never answered.
	Pending() (Pending, bool)

	// Done is closed when the Transport has ended. Err then returns the reason.
	Done() <-chan struct{}
	Err() error

	// Close ends the Transport. Calls in progress fail with ErrClosed.
	Close() error
}

// A Reply is the reply to a [Call] that was sent.
type Reply interface {
	// Recv appends the reply PDU to dst. If none has come c.Timeout after the
	// agent was free to work on it, Recv returns dst and ErrLate. The agent
	// is late from then on: Send answers ErrLate at once until every reply
	// that was due has come and been thrown away. The Reply is invalid when
	// Recv has returned.
	Recv(dst []byte) ([]byte, error)
}

// Do sends c and appends its reply to dst. It may be used by a goroutine that has
// no other Call on its way.
func Do(t Transport, c *Call, dst []byte) ([]byte, error) {
	r, err := t.Send(c)
	if err != nil {
		return dst, err
	}
	return r.Recv(dst)
}

// An IdleChecker is a Transport whose end is not noticed while no request is
// outstanding. CheckIdle looks, without waiting, whether the peer has closed the
// stream, and ends the Transport if so.
type IdleChecker interface{ CheckIdle() }

// An AbandonCounter is a Transport that can abandon a call that does not return.
// Abandoned reports how many it has.
type AbandonCounter interface{ Abandoned() int64 }

// A Call is one request on its way through a [Transport]. It can be used again
// once Recv of its Reply has returned or Send has failed. The zero Call is ready
// to use.
type Call struct {
	Origin  agents.Origin
	Profile *pdu.Profile  // for a FETCH; nil for a request that needs none
	Timeout time.Duration // for the agent's reply, and again for the wait until the request is sent; 0 is none
	Req     []byte        // the request PDU; read, not changed, until Recv returns

	// Batched says that the caller sends other Calls before it receives.
	Batched bool

	// Turn, if not nil, is the Turn that calls Send and Recv. Recv then calls an
	// Agent in this process on the same goroutine, unless the Call is Batched.
	Turn *Turn

	// MayBlock says that the daemon has no other work: the caller's thread may
	// block until the reply is there.
	MayBlock bool

	// Recv sets Began and Done when it succeeds: the times when the agent was free
	// to work on the request, and when the reply had arrived.
	Began, Done time.Time

	inline inlineReply // of an Inline
}

// A Pending is a request that an agent has not answered.
type Pending struct {
	Type   pdu.Type
	Client int32
	Since  time.Time // when the agent was free to work on it
}

// A Notice tells an agent about a client. If both End and Attrs are set, End comes
// first: the client that had the number has gone, Attrs are those of its successor.
type Notice struct {
	Client int32
	End    bool       // end of context (PM_ERR_NOTCONN in an ERROR PDU)
	Attrs  []pdu.Attr // all attributes, in place of those before; only if WantsAttrs
}

// A State is what an agent can do.
type State int32

const (
	Ready    State = iota // answers
	Late                  // has not answered a request in time, nor since
	NotReady              // has sent PM_ERR_PMDANOTREADY and not yet PM_ERR_PMDAREADY
)

func (s State) String() string { return [...]string{"ready", "late", "not ready"}[s] }

// Errors of a [Transport].
var (
	ErrLate     = errors.New("agent has not answered in time")
	ErrNotReady = errors.New("agent is not ready")
	ErrClosed   = errors.New("agent is closed")
)

// AppendRequest appends to b the PDUs that an agent gets for c: the profile, if
// withProfile is set, and the request, both with the numbers of c.Origin. It is for
// implementations of [Transport].
func AppendRequest(b []byte, c *Call, withProfile bool) (_ []byte, err error) {
	if withProfile {
		profile := len(b)
		if b, err = pdu.Append(b, c.Origin.Client, c.Profile); err != nil {
			return nil, err
		}
		// One profile, such as "all", may serve many contexts.
		binary.BigEndian.PutUint32(b[profile+pdu.HeaderLen:], uint32(c.Origin.Context))
	}
	if n, t, _ := pdu.Header(c.Req); int(n) != len(c.Req) || n < pdu.HeaderLen {
		return nil, &pdu.ParseError{Type: t, Err: pdu.ErrLength}
	}
	req := len(b)
	b = append(b, c.Req...)
	binary.BigEndian.PutUint32(b[req+8:], uint32(c.Origin.Client))
	return b, nil
}

// ReplyType returns the type of PDU that replies to a request of type t. ERROR may
// reply to any request, and is the only reply to a store.
func ReplyType(t pdu.Type) pdu.Type {
	switch t {
	case pdu.TypeFetch:
		return pdu.TypeResult
	case pdu.TypeDescReq:
		return pdu.TypeDesc
	case pdu.TypeInstanceReq:
		return pdu.TypeInstance
	case pdu.TypeTextReq:
		return pdu.TypeText
	case pdu.TypeLabelReq:
		return pdu.TypeLabel
	case pdu.TypePMNSNames:
		return pdu.TypePMNSIDs
	case pdu.TypePMNSIDs, pdu.TypePMNSChild, pdu.TypePMNSTraverse:
		return pdu.TypePMNSNames
	}
	return pdu.TypeError
}
