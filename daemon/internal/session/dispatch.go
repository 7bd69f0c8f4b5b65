package session

import (
	"errors"
	"io"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/daemon/internal/clients"
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

// A request handles the PDUs of one turn of a session, one after the other. It is
// two pointers, and a copy is the same request.
type request struct{ exchange }

// answer handles all PDUs in r.in, and reads the rest of one that is there only in
// part. The rest has to arrive within the time that an agent would have.
func (r request) answer() error {
	partial, profile := false, false
	for {
		switch {
		case r.client.Refusal() != 0:
			return clients.ErrRefused
		case r.srv.aborted.Load(): // thousands of requests may have arrived together
			return io.EOF
		}
		n, err := pdu.Frame(r.in[r.next:], r.srv.cfg.MaxPDU)
		if err != nil {
			claimed, t, _ := pdu.Header(r.in[r.next:])
			return &badHeader{int(claimed), r.srv.cfg.MaxPDU, t, err}
		}
		if n > 0 && len(r.in)-r.next >= n {
			b := r.in[r.next : r.next+n : r.next+n]
			r.next += n
			r.begin()
			r.cpu.Take()
			if err := r.dispatch(b); err != nil {
				return err
			}
			if r.next == len(r.in) {
				return nil
			}
			// A profile has used no buffer, and shares the slot of the next request.
			if _, t, _ := pdu.Header(b); t != pdu.TypeProfile {
				r.shed() // the next one may have to wait for an agent
				r.cpu.Release()
				profile = false
			} else if profile = !profile; !profile {
				r.cpu.Release()
			}
			partial = false
			continue
		}
		if !partial {
			partial = true
			var deadline time.Time
			if t := r.srv.cfg.RequestTimeout(); t > 0 {
				deadline = time.Now().Add(t)
			}
			r.stream.SetReadDeadline(deadline)
		}
		if err := r.more(n); err != nil {
			return err
		}
	}
}

// more reads more of a PDU of n bytes, or of one of unknown length if n is 0.
// Memory follows the bytes received. It has no slot: the rest may come in many pieces.
func (r request) more(n int) error {
	r.cpu.Release()
	if r.next > 0 {
		r.in = r.in[:copy(r.in, r.in[r.next:])]
		r.next = 0
	}
	const chunk = 16 << 10
	if want := min(max(n-len(r.in), 1), chunk); cap(r.in)-len(r.in) < want {
		r.in = append(r.in, make([]byte, want)...)[:len(r.in)]
	}
	if err := r.holdRequest(int64(cap(r.in))); err != nil {
		return err
	}
	got, err := r.stream.Read(r.in[len(r.in):cap(r.in)])
	r.in = r.in[:len(r.in)+got]
	if got == 0 {
		return err
	}
	return nil
}

// dispatch handles one PDU of the client's. An error ends the session.
func (r request) dispatch(b []byte) error {
	r.countIn(b)
	_, t, _ := pdu.Header(b)
	r.routes = r.srv.cfg.Routes()
	if r.client.Version.Load() == 0 && t != pdu.TypeCreds {
		return errBeforeCreds
	}
	if r.client.Container.Awaited && t != pdu.TypeCreds { // the container, and nothing else
		r.client.Container.Awaited = false
		return r.failAll(r.setContainer(b))
	}
	op, ok := needs(t)
	switch {
	case !ok:
		return r.fail(pdu.ErrnoIPC)
	case r.client.Denied()&op != 0:
		return r.fail(pdu.ErrnoPermission)
	}
	switch t {
	case pdu.TypeCreds:
		return r.creds(b)
	case pdu.TypeProfile:
		return r.setProfile(b)
	case pdu.TypeFetch, pdu.TypeHighResFetch:
		return fetchRequest{r}.fetch(b)
	case pdu.TypeDescReq, pdu.TypeInstanceReq, pdu.TypeTextReq:
		return r.lookup(b)
	case pdu.TypeDescIDs:
		return r.descs(b)
	case pdu.TypeLabelReq:
		return r.labels(b)
	case pdu.TypeResult:
		return r.store(b)
	case pdu.TypePMNSNames:
		return nameRequest{r}.namesToIDs(b)
	case pdu.TypePMNSIDs:
		return nameRequest{r}.idToNames(b)
	case pdu.TypePMNSChild:
		return nameRequest{r}.children(b)
	default:
		return nameRequest{r}.traverse(b)
	}
}

// failAll sends errors, each in a PDU of its own.
func (r request) failAll(codes []pdu.Errno) error {
	for _, code := range codes {
		if err := r.fail(code); err != nil {
			return err
		}
	}
	return nil
}
