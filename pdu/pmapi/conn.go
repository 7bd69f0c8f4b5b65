package pmapi

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// maxRequest is the longest request, in bytes, that every pmcd accepts (its option -L). It
// closes the connection of a client that sends a longer one.
const maxRequest = 64 << 10

// defaultMaxReply is the longest reply by default, in bytes. The names of all metrics of a
// large host are less than a MB.
const defaultMaxReply = 64 << 20

// A conn is a connection to pmcd. One goroutine at a time uses it.
//
// The protocol has no numbers for requests: a reply belongs to the oldest request without
// one. So after any failure but an ERROR PDU, which is kept in broken, a conn is closed.
type conn struct {
	nc       net.Conn
	r        *pdu.Reader
	features pdu.Features // that pmcd offers
	private  bool         // a Unix socket or TLS: others cannot read what is sent
	oneByOne bool         // each PDU needs a Write of its own
	noCert   error        // why pmcd has asked for a certificate and has got none

	broken  error
	state   int32        // state changes that pmcd reported, pdu.State bits
	profile *pdu.Profile // the one that pmcd has, or nil

	w []byte // for requests

	// For Fetch, so that it does not allocate.
	fetch        pdu.Fetch
	highResFetch pdu.HighResFetch

	timed       bool          // nc has a deadline
	stop        func() bool   // ends the watch of the context of the request
	interrupted chan struct{} // gets a value when interrupt has run
	interrupt   func()
}

// longAgo is a deadline that interrupts input and output.
var longAgo = time.Unix(1, 0)

func newConn(nc net.Conn, maxReply int) *conn {
	n := &conn{nc: nc, interrupted: make(chan struct{}, 1)}
	n.use(nc, maxReply)
	n.interrupt = func() {
		nc.SetDeadline(longAgo)
		n.interrupted <- struct{}{}
	}
	return n
}

// use makes nc, such as TLS on the former connection, carry what follows.
func (n *conn) use(nc net.Conn, maxReply int) {
	n.nc = nc
	n.r = pdu.NewReader(nc, maxReply)
}

// begin makes the end of ctx, or of timeout if that is not 0, interrupt input and output
// until end is called.
func (n *conn) begin(ctx context.Context, timeout time.Duration) {
	end, ok := ctx.Deadline()
	if timeout > 0 {
		if t := time.Now().Add(timeout); !ok || t.Before(end) {
			end, ok = t, true
		}
	}
	if ok || n.timed {
		if !ok {
			end = time.Time{}
		}
		n.nc.SetDeadline(end)
		n.timed = ok
	}
	if ctx.Done() != nil {
		n.stop = context.AfterFunc(ctx, n.interrupt)
	}
}

// end finishes a request that begin started. The connection can be used further unless it is broken.
func (n *conn) end() {
	if n.stop != nil && !n.stop() {
		<-n.interrupted // so that it does not interrupt the next request
		n.timed = true
	}
	n.stop = nil
}

// fail marks n as broken.
func (n *conn) fail(err error) error {
	if n.broken == nil {
		n.broken = err
	}
	return err
}

// send sends requests.
func (n *conn) send(ms ...pdu.Message) error {
	n.w = n.w[:0]
	for _, m := range ms {
		if err := n.add(m); err != nil {
			return err
		}
	}
	return n.flush()
}

// add adds a request to what flush sends. If it fails, nothing was added.
func (n *conn) add(m pdu.Message) error {
	start := len(n.w)
	w, err := pdu.Append(n.w, 0, m)
	if err != nil {
		return err
	}
	if len(w)-start > maxRequest {
		return pdu.ErrnoTooBig
	}
	n.w = w
	return nil
}

// flush sends what was added.
func (n *conn) flush() error {
	b := n.w
	n.w = n.w[:0]
	for len(b) > 0 {
		one := len(b)
		if n.oneByOne {
			length, _, _ := pdu.Header(b)
			one = int(length)
		}
		if _, err := n.nc.Write(b[:one]); err != nil {
			return n.fail(err)
		}
		b = b[one:]
	}
	return nil
}

// recv returns the next PDU and its type. It is valid until the next call. An ERROR PDU is
// an error of type pdu.Errno, or nil for a code of 0. Notices of state changes, which come
// before the reply to a fetch, are added to n.state.
func (n *conn) recv() ([]byte, pdu.Type, error) {
	// As many as pmcd can send in front of a reply, and some more.
	for range 8 {
		b, err := n.r.Next()
		if err != nil {
			return nil, 0, n.fail(err)
		}
		_, typ, _ := pdu.Header(b)
		if typ != pdu.TypeError {
			return b, typ, nil
		}
		var m pdu.Error
		if _, err := pdu.ParseInto(b, &m); err != nil {
			return nil, 0, n.fail(err)
		}
		switch {
		case m.Greeting:
			return nil, 0, n.fail(badReply("a greeting"))
		case m.Code < 0:
			return nil, typ, m.Code
		case m.Code == 0:
			return nil, typ, nil
		}
		n.state |= int32(m.Code)
	}
	return nil, 0, n.fail(badReply("nothing but notices of state changes"))
}

// call sends a request and decodes the reply into reply.
func (n *conn) call(req, reply pdu.Message) error {
	if err := n.send(req); err != nil {
		return err
	}
	b, typ, err := n.recv()
	if err != nil {
		return err
	}
	if typ != reply.Type() {
		return n.fail(badReply("%v to %v", typ, req.Type()))
	}
	if _, err := pdu.ParseInto(b, reply); err != nil {
		return n.fail(err)
	}
	return nil
}

// probe is a request to which pmcd replies with PMNS_IDS: names, if there are several, need
// not exist. It has no other effect. See probed for the other reply.
var probe = &pdu.PMNSNames{Names: []string{"pmcd", "pmcd"}}

// probed reports whether what recv has returned is the reply to probe. A C pmcd without a
// name space, after a reload that has failed, replies with an error that no other request but
// those about names has. It serves values.
func probed(typ pdu.Type, err error) bool {
	return err == nil && typ == pdu.TypePMNSIDs || errors.Is(err, pdu.ErrnoNoPMNS)
}

// accepted returns the error that pmcd reports for what was sent without a reply: CREDS, the
// end of a login, the name of a container, a profile. pmcd reports nothing if there is none,
// so accepted asks for something else and looks at what comes first.
func (n *conn) accepted() error {
	if err := n.send(probe); err != nil {
		return err
	}
	_, typ, err := n.recv()
	switch {
	case probed(typ, err):
		return nil
	case err != nil:
		return err
	}
	return n.fail(badReply("%v to %v", typ, probe.Type()))
}

func (n *conn) close() { n.nc.Close() }
