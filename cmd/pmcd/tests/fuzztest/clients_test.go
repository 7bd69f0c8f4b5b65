package fuzztest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

// numClients is how many clients there are at a time, each with one or several
// connections.
const numClients = 16

// unanswered is how long a reply may take for a client of the fuzzer, which may ask
// liars and wait behind others.
const unanswered = 30 * time.Second

// A behaviour is what a client does with a connection. It does not close it.
type behaviour struct {
	name   string
	weight int
	run    func(c *client) error
}

var behaviours = []behaviour{
	{"requests", 6, (*client).sequential},
	{"pipelined", 4, (*client).pipelined},
	{"in pieces", 3, (*client).inPieces},
	{"half-closed", 3, (*client).halfClosed},
	{"mutated", 8, (*client).mutated},
	{"cut", 3, (*client).cut},
	{"does not read", 2, (*client).doesNotRead},
	{"reads slowly", 1, (*client).readsSlowly},
	{"idle", 2, (*client).idle},
	{"storm", 2, (*client).connectMany},
	{"passes descriptors", 1, (*client).passesDescriptors},
	{"container", 2, (*client).container},
	{"stores", 1, (*client).stores},
}

// A client is one connection of the fuzzer.
type client struct {
	generator
	e    *episode
	ctx  context.Context
	name string
	*pdutest.Client
	unix bool

	// denied is set when pmcd has denied something, because access rules have changed.
	// A PROFILE that is denied has a reply, so replies do not match requests any more.
	denied bool
}

// client connects and behaves in some way, again and again, until ctx ends.
func (e *episode) client(ctx context.Context, number int) {
	g := e.random(fmt.Sprint("client ", number))
	var table []int
	for i, b := range behaviours {
		for range b.weight {
			table = append(table, i)
		}
	}
	for ctx.Err() == nil {
		// All that depends on pmcd uses other numbers, so that the next round is the
		// same in each run.
		b := behaviours[pick(g.Rand, table...)]
		c := &client{generator: g.split(), e: e, ctx: ctx, name: fmt.Sprint("client ", number), unix: g.IntN(2) == 0}
		e.journal.add("%s: %s, %s", c.name, b.name, map[bool]string{true: "unix", false: "tcp"}[c.unix])
		if err := c.dial(); err != nil {
			select { // pmcd may have no descriptors
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Now()) })
		err := b.run(c)
		stop()
		if f := new(finding); errors.As(err, &f) && ctx.Err() == nil {
			e.fail("%s, %s: %v", c.name, b.name, f)
		}
		c.hangUp()
	}
}

// split returns a generator whose numbers depend only on how many g has returned.
func (g generator) split() generator {
	return newGenerator(g.Uint64())
}

// A finding is an error that pmcd is to blame for.
type finding struct{ text string }

func (f *finding) Error() string { return f.text }

func findingf(format string, args ...any) error { return &finding{fmt.Sprintf(format, args...)} }

// dial connects.
func (c *client) dial() error {
	c.e.connections.Add(1)
	network, addr := "tcp", c.e.tcp
	if c.unix {
		network, addr = "unix", c.e.sock()
	}
	d := net.Dialer{Timeout: 5 * time.Second}
	conn, err := d.DialContext(c.ctx, network, addr)
	if err == nil {
		c.Client = pdutest.New(conn)
		c.SetDeadline(time.Now().Add(unanswered))
	}
	return err
}

// hangUp closes the connection, or resets it.
func (c *client) hangUp() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok && c.IntN(3) == 0 {
		tcp.SetLinger(0)
	}
	c.Close()
}

// pause waits for some time, up to most.
func (c *client) pause(most time.Duration) {
	select {
	case <-time.After(time.Duration(c.Int64N(int64(most)))):
	case <-c.ctx.Done():
	}
}

// next returns the next PDU, which must be valid.
func (c *client) next() (pdu.Message, error) {
	b, err := c.Receive()
	if err == nil {
		var m pdu.Message
		if _, m, err = pdu.Parse(bytes.Clone(b)); err == nil {
			return m, nil
		}
	}
	if bad := new(pdu.ParseError); errors.As(err, &bad) {
		return nil, findingf("pmcd has sent a PDU that cannot be parsed: %v: %.200x", err, b)
	}
	return nil, err
}

// handshake reads the greeting and sends CREDS.
func (c *client) handshake() error {
	m, err := c.next()
	if err != nil {
		return err
	}
	if e, ok := m.(*pdu.Error); !ok {
		return findingf("greeting %+v", m)
	} else if e.Code != 0 {
		return e.Code
	}
	return c.Send(pdutest.Creds(0), &pdu.Profile{})
}

// reply reads the reply to a request.
func (c *client) reply(r request) error {
	for {
		m, err := c.next()
		if errors.Is(err, os.ErrDeadlineExceeded) && c.ctx.Err() == nil {
			return findingf("%v unanswered for %v: %+v", r.Type(), unanswered, r.Message)
		}
		if err != nil {
			return err
		}
		e, ok := m.(*pdu.Error)
		switch {
		case ok && e.Code > 0 && (r.reply == pdu.TypeResult || r.reply == pdu.TypeHighResResult):
			continue // state changes
		case ok:
			c.denied = c.denied || e.Code == pdu.ErrnoPermission
		case m.Type() != r.reply && !c.denied:
			return findingf("%v in reply to %v %+v", m.Type(), r.Type(), r.Message)
		case !c.denied:
			if got, want := identifiers(m), identifiers(r.Message); !slices.Equal(got, want) {
				return findingf("%v has %v, %v is for %v", m.Type(), got, r.Type(), want)
			}
		}
		c.e.replies.Add(1)
		return nil
	}
}

// identifiers returns the metrics of a fetch or of its reply, which pmcd checks, and the
// number of those of descriptors. Of other PDUs it returns nothing: pmcd relays what agents
// reply.
func identifiers(m pdu.Message) (ids []pdu.PMID) {
	var sets []pdu.ValueSet
	switch m := m.(type) {
	case *pdu.Fetch:
		return m.PMIDs
	case *pdu.HighResFetch:
		return m.PMIDs
	case *pdu.DescIDs:
		return make([]pdu.PMID, len(m.PMIDs))
	case *pdu.Descs:
		return make([]pdu.PMID, len(m.Descs))
	case *pdu.Result:
		sets = m.Sets
	case *pdu.HighResResult:
		sets = m.Sets
	}
	for _, vs := range sets {
		ids = append(ids, vs.PMID)
	}
	return ids
}

// send writes PDUs.
func (c *client) send(rs ...request) error {
	c.e.requests.Add(int64(len(rs)))
	_, err := c.Write(encode(rs...))
	return err
}
