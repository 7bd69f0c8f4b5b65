// Package transport is how pmcd sends requests to agents and receives replies.
//
// A [Transport] leads to one agent. [Local] and [Inline] return the Transport of an
// Agent in this process; package wire has the one of a PMDA behind pipes or a
// socket. Requests and replies are always PDUs. So the daemon serves clients in the
// same way for all agents, and does not decode the values.
//
// The Transports of an Agent in this process are here and not in a package of their
// own because a [Call] has a field for them, its [Coroutine], whose methods would have to be exported.
package transport

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/fairqueue"
	"github.com/gopcp/pmcd/internal/responder"
	"github.com/gopcp/pmcd/pdu"
)

// A Transport carries requests to one agent and its replies back.
//
// A goroutine that has a request calls Send. If Send succeeds, the goroutine must
// call Recv of the Reply once. Between the two it may send other Calls, to this or
// other agents, but must not wait for anything else. Several goroutines may use a
// Transport at the same time, but not the same Call.
//
// After an error other than [ErrLate] and [ErrNotReady] the Transport has ended, and
// Send and Recv return that error from then on. An ERROR PDU is a reply and not an
// error.
//
// A Transport may implement [IdleChecker] and [AbandonCounter], too.
type Transport interface {
	// Send sends c.Req and, immediately before it, c.Profile if the agent has
	// another profile. It waits while as many requests as the Transport allows
	// are outstanding, for at most c.Timeout, and until it is the turn of c.Key.
	// Replies have the order of requests.
	Send(c *Call) (Reply, error)

	// Notify sends a Notice, which has no reply, and does not wait. If the agent is
	// idle it gets the Notice at once; otherwise it gets it before the next
	// request. Notify may be called in any State.
	Notify(n Notice)

	// WantsAttrs reports whether the agent has requested the attributes of clients.
	WantsAttrs() bool

	// State returns whether the agent can take requests. After the end of the
	// Transport it has no meaning.
	State() State

	// Pending returns the oldest request that the agent has not answered; false if
	// there is none. It is still valid after the end of the Transport.
	Pending() (Pending, bool)

	// Done is closed when the Transport has ended. Err then returns the reason.
	Done() <-chan struct{}
	Err() error

	// Close ends the Transport. Calls in progress fail with ErrClosed.
	Close() error
}

// DefaultMaxReply is how long a reply of an agent may be by default, in bytes. A
// longer one is PM_ERR_TOOBIG.
const DefaultMaxReply = responder.DefaultMax

// A Reply is the reply to a [Call] that was sent.
type Reply interface {
	// Recv waits for the reply PDU and appends it to dst, whose memory must not be
	// used after that. If the agent has had c.Timeout to work on the request and has
	// not replied, Recv returns dst and ErrLate. The agent is Late then, unless it is
	// behind an Inline: Send returns ErrLate at once until all outstanding replies
	// have arrived, which are discarded. The Reply is invalid when Recv has returned.
	Recv(dst []byte) ([]byte, error)
}

// Do sends c and appends its reply to dst. The calling goroutine must not have
// another request outstanding.
func Do(t Transport, c *Call, dst []byte) ([]byte, error) {
	r, err := t.Send(c)
	if err != nil {
		return dst, err
	}
	return r.Recv(dst)
}

// Probe is Do for the request m of the daemon itself, which is of no client.
func Probe(t Transport, c Call, m pdu.Message) (reply []byte, err error) {
	c.Origin.Client = -1 // no client has this number
	if c.Req, err = pdu.Append(nil, 0, m); err != nil {
		return nil, err
	}
	return Do(t, &c, nil)
}

// An IdleChecker is a Transport that does not detect the end of its stream while no
// request is outstanding. CheckIdle checks, without waiting, whether the peer has
// closed the stream, and if so ends the Transport.
type IdleChecker interface{ CheckIdle() }

// An AbandonCounter is a Transport that can abandon a call that does not return.
// Abandoned returns the number of calls that it has abandoned.
type AbandonCounter interface{ Abandoned() int64 }

// A Call is one request to an agent. It can be reused when Recv of its Reply has
// returned or Send has failed.
type Call struct {
	Origin  agents.Origin
	Profile *Profile      // for a FETCH; nil for a request that needs none
	Timeout time.Duration // for the wait for the turn of the Call, again for writing it, and again for the reply; 0 is none

	// Req is the request PDU, or several of one type other than FETCH, one after the other.
	// Then the agent works on all of them, one after the other, within Timeout, and Recv appends as
	// many replies in this order. Req is read, not changed, until Recv returns.
	Req []byte

	// Key says whose Call it is. While Calls wait for a busy agent, clients take turns
	// by their Keys: see package fairqueue. A Call without a Key is the daemon's own, and
	// is sent before others. The Key is not changed until Send returns. An Inline
	// ignores it.
	Key *fairqueue.Key

	// Batched says that the goroutine sends other Calls before it calls Recv.
	Batched bool

	// Coroutine, if not nil, is the one that calls Send and Recv. Recv then calls
	// an Agent in this process on the same goroutine. If the Call is Batched, only
	// that of an Inline is called so.
	Coroutine *Coroutine

	// MayBlock says that the daemon has no other work, so that the thread may block
	// until the reply has arrived.
	MayBlock bool

	// Waiter, if not nil, is called when Send or Recv is about to wait.
	Waiter Waiter

	// Recv sets Began and Done when it succeeds: the times when the agent was free
	// to work on the request, and when the reply had arrived.
	Began, Done time.Time
}

// A Waiter is the caller of Send and Recv.
type Waiter interface {
	// BeforeWait is called on the goroutine of the caller before it waits: in Send for the
	// turn of the Call, and if sent is set for the agent. It must not wait.
	BeforeWait(sent bool)
}

// BeforeWait tells the Waiter of c. It is for implementations of [Transport].
func (c *Call) BeforeWait(sent bool) {
	if c.Waiter != nil {
		c.Waiter.BeforeWait(sent)
	}
}

// request returns c for a Responder, which is about to call the agent.
func (c *Call) request() responder.Request {
	return responder.Request{Origin: c.Origin, Profile: c.Profile.decode(), PDU: c.Req}
}

// A Pending is a request that an agent has not answered.
type Pending struct {
	Type   pdu.Type
	Client int32
	Since  time.Time // when the agent was free to work on it
}

// A Notice is information for an agent about a client. If both End and Attrs are
// set, the client with the number has disconnected, and Attrs are the attributes of
// the next client with the same number.
type Notice struct {
	Client int32
	End    bool       // the client has disconnected (an ERROR PDU with PM_ERR_NOTCONN)
	Attrs  []pdu.Attr // all attributes of the client, old and new; only if WantsAttrs
}

// A State says whether an agent can take requests.
type State int32

const (
	Ready    State = iota // it can
	Late                  // it has not yet answered a request whose timeout has passed
	NotReady              // it has sent PM_ERR_PMDANOTREADY and not yet PM_ERR_PMDAREADY
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
		if b, err = c.Profile.append(b, c.Origin.Client, c.Origin.Context); err != nil {
			return nil, err
		}
	}
	req := len(b)
	b = append(b, c.Req...)
	for rest := b[req:]; ; {
		n, t, _ := pdu.Header(rest)
		if n < pdu.HeaderLen || int(n) > len(rest) {
			return nil, &pdu.ParseError{Type: t, Err: pdu.ErrLength}
		}
		binary.BigEndian.PutUint32(rest[8:], uint32(c.Origin.Client))
		if rest = rest[n:]; len(rest) == 0 {
			return b, nil
		}
	}
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
