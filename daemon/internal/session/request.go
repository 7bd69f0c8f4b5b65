package session

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/daemon/internal/calls"
	"github.com/gopcp/pmcd/daemon/internal/clients"
	"github.com/gopcp/pmcd/daemon/internal/names"
	"github.com/gopcp/pmcd/daemon/internal/repeated"
	"github.com/gopcp/pmcd/pdu"
)

// errBeforeCreds ends a session that asks for something before it has stated
// its version.
var errBeforeCreds = errors.New("PDU before CREDS")

// needs is what a client must be allowed for a PDU of each type (pmcd(1),
// ACCESS CONTROL). Others are no requests.
func needs(t pdu.Type) (op access.Op, ok bool) {
	switch t {
	case pdu.TypeCreds:
		return 0, true
	case pdu.TypeResult:
		return access.Store, true
	case pdu.TypeProfile, pdu.TypeFetch, pdu.TypeHighResFetch, pdu.TypeDescReq, pdu.TypeDescIDs,
		pdu.TypeInstanceReq, pdu.TypeTextReq, pdu.TypeLabelReq,
		pdu.TypePMNSIDs, pdu.TypePMNSNames, pdu.TypePMNSChild, pdu.TypePMNSTraverse:
		return access.Fetch, true
	}
	return 0, false
}

// A request handles the PDUs that a session has read together, one after the other. A session
// has one, with its buffers, only while it handles input.
type request struct {
	s     *session
	in    []byte // input; PDUs before next are handled
	next  int
	calls calls.Caller

	fetch    pdu.Fetch
	distinct distinct
	repeated repeated.Reply
	large    bool // is of largeRequests
}

// answer handles all PDUs in r.in, and reads the rest of one that is there only in
// part. The rest has to arrive within the time that an agent would have.
func (r *request) answer() error {
	partial, profile := false, false
	for {
		switch {
		case r.s.client.Refusal() != 0:
			return clients.ErrRefused
		case r.s.srv.calls.Ended.Load(): // thousands of requests may have arrived together
			return io.EOF
		}
		n, err := pdu.Frame(r.in[r.next:], r.s.srv.cfg.MaxPDU)
		if err != nil {
			claimed, t, _ := pdu.Header(r.in[r.next:])
			return &badHeader{int(claimed), r.s.srv.cfg.MaxPDU, t, err}
		}
		if n > 0 && len(r.in)-r.next >= n {
			b := r.in[r.next : r.next+n : r.next+n]
			r.next += n
			if err := r.s.awaitAnswer(); err != nil {
				return err
			}
			_, t, _ := pdu.Header(b) // in a login, the input after b replaces it
			r.s.begin()
			if r.s.holds.request > 0 { // others that wait have no memory yet
				r.s.cpu.TakeAgain()
			} else {
				r.s.cpu.Take()
			}
			if err := r.dispatch(b); err != nil {
				return err
			}
			if r.next == len(r.in) {
				return nil
			}
			// A profile has used no buffer, and shares the slot of the next request.
			if t != pdu.TypeProfile {
				r.calls.FreeLarge() // the next one may have to wait for an agent
				r.s.cpu.Release()
				profile = false
			} else if profile = !profile; !profile {
				r.s.cpu.Release()
			}
			partial = false
			continue
		}
		if !partial {
			partial = true
			var deadline time.Time
			if t := r.s.srv.cfg.RequestTimeout(); t > 0 {
				deadline = time.Now().Add(t)
			}
			r.s.stream.SetReadDeadline(deadline)
		}
		r.s.noAnswer() // until all of the request is there
		if err := r.more(n); err != nil {
			return err
		}
	}
}

// more reads more of a PDU of n bytes, or of one of unknown length if n is 0.
// Memory follows the bytes received. It has no slot: the rest may come in many pieces.
func (r *request) more(n int) error {
	r.s.cpu.Release()
	if r.next > 0 {
		r.in = r.in[:copy(r.in, r.in[r.next:])]
		r.next = 0
	}
	const chunk = 16 << 10
	if want := min(max(n-len(r.in), 1), chunk); cap(r.in)-len(r.in) < want {
		r.in = append(r.in, make([]byte, want)...)[:len(r.in)]
	}
	if err := r.s.holdRequest(int64(cap(r.in))); err != nil {
		return err
	}
	got, err := r.s.stream.Read(r.in[len(r.in):cap(r.in)])
	r.in = r.in[:len(r.in)+got]
	if got == 0 {
		return err
	}
	return nil
}

// dispatch handles one PDU of the client's. An error ends the session.
func (r *request) dispatch(b []byte) error {
	s, c := r.s, &r.calls
	s.countIn(b)
	_, t, _ := pdu.Header(b)
	c.Routes, c.MayBlock = s.srv.cfg.Routes(), s.stream.Exclusive()
	if s.client.Version.Load() == 0 && t != pdu.TypeCreds {
		return errBeforeCreds
	}
	if s.client.Container.Awaited && t != pdu.TypeCreds { // the container, and nothing else
		s.client.Container.Awaited = false
		return r.failAll(s.setContainer(b))
	}
	op, ok := needs(t)
	switch {
	case !ok:
		return r.fail(pdu.ErrnoIPC)
	case s.client.Denied()&op != 0:
		return r.fail(pdu.ErrnoPermission)
	}
	var out []byte
	var long *repeated.Reply
	var pieces [][]byte
	var err error
	switch t {
	case pdu.TypeCreds:
		return r.creds(b)
	case pdu.TypeResult:
		return r.fail(store(c, b))
	case pdu.TypeProfile:
		err = s.setProfile(b)
	case pdu.TypeFetch, pdu.TypeHighResFetch:
		out, long, err = fetchRequest{r, t == pdu.TypeHighResFetch}.reply(b)
	case pdu.TypeDescReq, pdu.TypeInstanceReq, pdu.TypeTextReq:
		out, err = lookup(c, b)
	case pdu.TypeDescIDs:
		out, err = descs(c, b, &r.distinct, s.srv.hashSeed)
	case pdu.TypeLabelReq:
		out, err = lookUpLabels(c, b, s.srv.contextLabels, s.contexts.current, s.profile)
	case pdu.TypePMNSNames:
		out, err = names.Request{Calls: c, Missing: &s.srv.Missing}.IDs(b)
	case pdu.TypePMNSIDs:
		out, err = names.Request{Calls: c, Missing: &s.srv.Missing}.Names(b)
	case pdu.TypePMNSChild:
		out, err = names.Request{Calls: c, Missing: &s.srv.Missing}.Children(b)
	default:
		pieces, err = names.Request{Calls: c, Missing: &s.srv.Missing}.Traverse(b)
	}
	switch {
	case err != nil:
		return r.fail(calls.Errno(err))
	case long != nil:
		return r.writeFrom(long)
	case pieces != nil:
		return r.writePieces(pieces)
	case out != nil: // a profile has no answer
		return r.write(out)
	}
	return nil
}

// failAll sends errors, each in a PDU of its own.
func (r *request) failAll(codes []pdu.Errno) error {
	for _, code := range codes {
		if err := r.fail(code); err != nil {
			return err
		}
	}
	return nil
}

// Requests whose buffers have grown have a pool of their own, for sessions that need them. So
// a session with small requests does not hold large buffers. The garbage collector frees what
// is in the pools.
var requests, largeRequests sync.Pool

// largeUses is how many times a session whose request has grown gets a large one.
// After that it gets a small one, which grows again if necessary.
const largeUses = 255

// A requestHistory says whether a session has recently needed a large request. The zero
// value says that it has not.
type requestHistory struct {
	largeUses uint8 // how many more times the session gets a large request
}

// acquire returns a request to handle input with.
func (h *requestHistory) acquire() *request {
	if h.largeUses > 0 {
		if r, ok := largeRequests.Get().(*request); ok {
			return r
		}
	}
	if r, ok := requests.Get().(*request); ok {
		return r
	}
	return &request{in: make([]byte, 0, 2<<10)}
}

// release puts r back when the input is handled.
func (h *requestHistory) release(r *request) {
	grown := r.clear()
	if grown {
		h.largeUses = largeUses
	} else if h.largeUses > 0 {
		h.largeUses--
	}
	if r.large {
		largeRequests.Put(r)
	} else {
		requests.Put(r)
	}
}

// pmidBytes returns how many bytes the PMIDs of a fetch take.
func (r *request) pmidBytes() int { return r.distinct.bytes() + 4*cap(r.fetch.PMIDs) }

// freeLarge frees large buffers when the session has to wait for its client, and the input if all of
// it is handled but for a reply that is being written.
func (r *request) freeLarge() {
	r.calls.FreeLarge()
	if r.next > 0 && r.next == len(r.in) && cap(r.in) > freeRequest {
		r.in, r.next = nil, 0
		r.s.dropRequest()
	}
	if r.pmidBytes() > calls.MaxNormal {
		r.distinct, r.fetch.PMIDs = distinct{}, nil
	}
}

// clear forgets what was handled, and frees buffers that are too large to be kept.
// It reports whether r has become large.
func (r *request) clear() (grown bool) {
	r.s, r.in, r.next = nil, r.in[:0], 0
	if r.pmidBytes() > calls.MaxKept {
		r.distinct, r.fetch.PMIDs = distinct{}, nil
	}
	if cap(r.in) > freeRequest || cap(r.in) == 0 { // holdRequest has accounted for this session only
		r.in = make([]byte, 0, 2<<10)
	}
	large := r.calls.Clear()+cap(r.in)+r.pmidBytes()+r.repeated.Held() > calls.MaxNormal
	grown = !r.large && large
	r.large = large
	return grown
}
