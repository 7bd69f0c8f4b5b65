package session

import (
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
	"github.com/gopcp/pmcd/pmnsload"
)

// A talk is a client without a socket, whose session is served.
type talk struct {
	t        *testing.T
	s        *session
	conn     *fakeConn
	greeting []byte
	rest     []byte        // replies that were not received yet
	ended    chan struct{} // closed at the end of the session
}

// accept returns a client of srv at conn that has not sent CREDS.
func accept(t *testing.T, srv *Server, conn *fakeConn) *talk {
	t.Helper()
	conn.input, conn.replies = make(chan []byte, 1), make(chan []byte, 10)
	c := &talk{t: t, conn: conn, ended: make(chan struct{})}
	served, greeting := srv.Accept(c.conn)
	c.s, c.greeting = served.(*session), greeting
	go func() {
		defer close(c.ended)
		c.s.Serve()
	}()
	t.Cleanup(func() {
		close(c.conn.input)
		<-c.ended
	})
	return c
}

// dial returns a client of srv that has sent CREDS.
func dial(t *testing.T, srv *Server) *talk {
	t.Helper()
	c := accept(t, srv, &fakeConn{peer: conn.Peer{Unix: true}})
	c.send(pdutest.Creds(0))
	return c
}

// send sends PDUs together.
func (c *talk) send(ms ...pdu.Message) {
	c.t.Helper()
	var b []byte
	for _, m := range ms {
		var err error
		if b, err = pdu.Append(b, 7, m); err != nil {
			c.t.Fatal(err)
		}
	}
	c.sendBytes(b)
}

func (c *talk) sendBytes(b []byte) {
	select {
	case c.conn.input <- b:
	case <-c.ended:
	}
}

// more waits for more of the replies, and reports false at the end of the session.
func (c *talk) more() bool {
	select {
	case b := <-c.conn.replies:
		c.rest = append(c.rest, b...)
		return true
	case <-c.ended:
	case <-time.After(testutil.Hangs):
		c.t.Fatal("no reply")
	}
	select {
	case b := <-c.conn.replies: // it was there before the end
		c.rest = append(c.rest, b...)
		return true
	default:
		return false
	}
}

// recv returns the next PDU.
func (c *talk) recv() pdu.Message {
	c.t.Helper()
	for {
		if n, err := pdu.Frame(c.rest, 1<<30); err != nil {
			c.t.Fatal(err)
		} else if n > 0 && len(c.rest) >= n {
			from, m, err := pdu.Parse(c.rest[:n:n])
			if c.rest = c.rest[n:]; err != nil || from != 0 {
				c.t.Fatalf("from %d, %v", from, err)
			}
			return m
		}
		if !c.more() {
			c.t.Fatal("no reply: the session has ended")
		}
	}
}

// do sends a request and returns the reply as agentsettest.Show does.
func (c *talk) do(m pdu.Message) string {
	c.t.Helper()
	c.send(m)
	return agentsettest.Show(c.recv())
}

// closed fails the test unless the session ends without another PDU.
func (c *talk) closed() {
	c.t.Helper()
	if c.more() || len(c.rest) > 0 {
		c.t.Errorf("got %x, want the end", c.rest)
	}
}

func id(domain, item int) pdu.PMID { return pdu.NewPMID(domain, 0, item) }

// tableOf returns a table with agents in process and agentsettest.Names. The agents of the
// domains 240 to 242 that are not in the list are agentsettest.Testers.
func tableOf(t *testing.T, list map[int]agents.Agent) *routes.Table {
	t.Helper()
	tree := parseNames(t, agentsettest.Names)
	var all []*agentset.Agent
	for domain := 240; domain <= 242; domain++ {
		a := list[domain]
		if a == nil {
			a = &agentsettest.Tester{Domain: domain}
		}
		all = append(all, agentsettest.Start(t, domain, a, tree).Agents()...)
	}
	return routes.New(all, tree)
}

func parseNames(t *testing.T, text string) *pmnsload.Tree {
	t.Helper()
	tree, err := pmnsload.Parse("pmns", strings.NewReader(text), pmnsload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
