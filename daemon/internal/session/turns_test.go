package session

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/transport/transporttest"
	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// A fakeConn is a Conn with input from the test.
type fakeConn struct {
	conn.Conn // nil: its other methods are not called
	input     chan []byte
	unread    []byte
	replies   chan []byte
	closed    chan struct{} // if not nil, Close waits for it
	piece     int           // the most that Read returns; 0 is any number
	onRead    func()        // is called by Read, unless nil
	onWrite   func()        // is called by Write, unless nil
}

func (c *fakeConn) Peer() conn.Peer           { return conn.Peer{Unix: true} }
func (c *fakeConn) FD() int                   { return -1 }
func (c *fakeConn) Exclusive() bool           { return false }
func (c *fakeConn) SetReadDeadline(time.Time) {}
func (c *fakeConn) Abort()                    {}
func (c *fakeConn) Compact()                  {}

func (c *fakeConn) Close([]byte) {
	if c.closed != nil {
		<-c.closed
	}
}

func (c *fakeConn) Wait() error {
	var ok bool
	if c.unread, ok = <-c.input; !ok {
		return io.EOF
	}
	return nil
}

func (c *fakeConn) Read(b []byte) (n int, err error) {
	if c.onRead != nil {
		c.onRead()
	}
	if c.piece > 0 {
		b = b[:min(len(b), c.piece)]
	}
	n = copy(b, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

func (c *fakeConn) Write(b []byte) (int, error) {
	if c.onWrite != nil {
		c.onWrite()
	}
	c.replies <- append([]byte(nil), b...)
	return len(b), nil
}

// A oneTurn is a session that has input for one turn.
type oneTurn struct {
	*session
	over bool
}

func (s *oneTurn) Await() bool {
	defer func() { s.over = true }()
	return !s.over
}

// A turnPlace is a place in which a session may be overdue between two requests only.
type turnPlace struct {
	*transporttest.Place
	between bool // until it is entered again
}

func (p *turnPlace) OverdueBetween() bool { return p.between || p.Overdue() }

func (p *turnPlace) Enter() {
	p.between = p.between && p.Entered()
	p.Place.Enter()
}

// newTurn returns a session in the place p that has this input, and can use table.
func newTurn(t *testing.T, p *transporttest.Place, table *routes.Table, ms ...pdu.Message) (*oneTurn, *fakeConn) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	srv := New(Config{
		Routes:         func() *routes.Table { return table },
		RequestTimeout: func() time.Duration { return 0 },
		MaxPDU:         64 << 10, MaxContexts: 1, MaxMetrics: 100, MaxReply: 64 << 10,
		Hostname: func() (string, error) { return "host", nil },
		Counts:   new(pdu.Counts),
		Log:      log,
		Limiter:  diag.NewLogLimiter(log),
		Trace:    diag.NewTrace(0, log),
		Debug:    diag.NewDebug("", log),
	})
	t.Cleanup(srv.Close)
	c := &fakeConn{input: make(chan []byte, 1), replies: make(chan []byte, 10)}
	client, _ := srv.Accept(c)
	s := client.(*session)
	s.id.version.Store(2)
	s.place = &turnPlace{Place: p}
	for _, m := range ms {
		var err error
		if c.unread, err = pdu.Append(c.unread, 0, m); err != nil {
			t.Fatal(err)
		}
	}
	return &oneTurn{session: s}, c
}

// A busyTransport is a Transport whose Send waits, and leaves the place of the Call if it
// has one.
type busyTransport struct {
	*transport.Worker
	end <-chan struct{}
}

func (b busyTransport) Send(c *transport.Call) (transport.Reply, error) {
	if c.Waiter == nil {
		panic("a Call without Waiter")
	}
	c.BeforeTurn()
	<-b.end
	return nil, transport.ErrLate
}

// While a session waits, others compute in its place.
func TestLeavesPlace(t *testing.T) {
	const domain = 240
	desc := &pdu.DescReq{PMID: pdu.NewPMID(domain, 0, 1)}
	fetch := func(ids ...pdu.PMID) []pdu.Message { return []pdu.Message{new(pdu.Profile), &pdu.Fetch{PMIDs: ids}} }
	store := func(ids ...pdu.PMID) (m *pdu.Result) {
		m = new(pdu.Result)
		for _, id := range ids {
			m.Sets = append(m.Sets, pdu.ValueSet{PMID: id, Values: []pdu.Value{{Inst: -1}}})
		}
		return m
	}
	// wait returns a Wait of a session that answers ms. The agent is busy, or it has not
	// started.
	wait := func(name string, started bool, ms ...pdu.Message) transporttest.Wait {
		return transporttest.Wait{Name: name, Start: func(t *testing.T, p *transporttest.Place) func() {
			end := make(chan struct{})
			table := startTransport(t, domain, func() transport.Transport {
				if !started {
					<-end
				}
				return busyTransport{transport.Local(new(namer)), end}
			}, new(pmnsload.Tree))
			if started {
				<-table.Agent(domain).Started()
			}
			s, c := newTurn(t, p, table, ms...)
			s.container.set("box")
			s.srv.cfg.ContainerHost = func(context.Context, string) (string, error) {
				<-end
				return "", nil
			}
			go s.srv.turnPool.Serve(s)
			return func() {
				close(end)
				<-c.replies
			}
		}}
	}
	// serve returns a Wait of a session that serves a client. Start is called meanwhile, and
	// returns when the session has no more to do.
	serve := func(name string, start func(c *fakeConn) (end func())) transporttest.Wait {
		return transporttest.Wait{Name: name, Start: func(t *testing.T, p *transporttest.Place) func() {
			s, c := newTurn(t, p, routes.New(nil, new(pmnsload.Tree)), desc)
			done := make(chan struct{})
			wait := make(chan func(), 1)
			go func() { wait <- start(c) }()
			go func() {
				defer close(done)
				s.session.Serve()
			}()
			end := <-wait
			return func() {
				end()
				<-done
			}
		}}
	}
	one, other := pdu.NewPMID(domain, 0, 1), pdu.NewPMID(domain+1, 0, 1)
	transporttest.TestLeavesPlace(t, testutil.Eventually, []transporttest.Wait{
		wait("for the first start of an agent", false, store(one)),
		wait("for the agent of a descriptor", true, desc),
		wait("for the agent of a fetch", true, fetch(one)...),
		wait("for one of two agents of a fetch", true, fetch(one, other)...),
		wait("for the agent of a store", true, store(one)),
		wait("for one of two agents of a store", true, store(other, one)),
		wait("for the host name in a container", true, fetch(hostnameID)...),
		{Name: "for the client", Start: func(t *testing.T, p *transporttest.Place) func() {
			s, _ := newTurn(t, p, nil)
			s.BeforeWait()
			return func() {}
		}},
		serve("for the next request", func(c *fakeConn) (end func()) {
			c.input <- c.unread
			<-c.replies
			return func() { close(c.input) }
		}),
		serve("for the client to take the last bytes", func(c *fakeConn) (end func()) {
			c.closed = make(chan struct{})
			close(c.input)
			return func() { close(c.closed) }
		}),
	})
}

// Between two requests of a turn a session gives its place to others that have waited for
// long.
func TestOverdue(t *testing.T) {
	p := new(transporttest.Place)
	desc := &pdu.DescReq{PMID: pdu.NewPMID(240, 0, 1)}
	s, c := newTurn(t, p, routes.New(nil, new(pmnsload.Tree)), desc, desc)
	p.Enter()
	s.place.(*turnPlace).between = true
	s.srv.turnPool.Serve(s)
	<-c.replies
	<-c.replies
	if n := p.Left(); n != 2 {
		t.Errorf("the place was left %d times, want 2: between the requests and at the end", n)
	}
}

// So does a session that reads a request in small pieces.
func TestOverdueInRequest(t *testing.T) {
	p := new(transporttest.Place)
	s, c := newTurn(t, p, routes.New(nil, new(pmnsload.Tree)), &pdu.DescReq{PMID: pdu.NewPMID(240, 0, 1)}) // 16 bytes
	c.piece, c.onRead = 4, p.SetOverdue
	p.Enter()
	s.srv.turnPool.Serve(s)
	<-c.replies
	if n := p.Left(); n != 4 {
		t.Errorf("the place was left %d times, want 4: in three pieces and at the end", n)
	}
}

// A lookupPlace is a Resolver that notes whether it is asked in the place.
type lookupPlace struct {
	*transporttest.Place
	lookups int
	inPlace bool
}

func (l *lookupPlace) Groups(uint32) ([]uint32, error) {
	l.lookups++
	l.inPlace = l.inPlace || l.Entered()
	return []uint32{7}, nil
}

// While the operating system is asked for users and groups, others compute in the place.
func TestLookupsInNoPlace(t *testing.T) {
	p := &lookupPlace{Place: new(transporttest.Place)}
	s, _ := newTurn(t, p.Place, new(routes.Table))
	rules, err := access.New([]access.Rule{{Kind: access.Group, Name: "g", ID: 7, Specified: access.Store, Denied: access.Store}}, access.Env{Accounts: p})
	if err != nil {
		t.Fatal(err)
	}
	s.srv.ApplyRules(rules)
	s.id.peer = access.Peer{Family: access.Unix, HasUser: true}
	if code := s.admit(); code != 0 {
		t.Fatal(code)
	}
	p.Enter()
	if codes := s.checkAccount(); codes != nil {
		t.Error(codes)
	}
	if p.lookups != 1 || p.inPlace || !p.Entered() {
		t.Errorf("%d lookups, in the place: %t; in it after that: %t", p.lookups, p.inPlace, p.Entered())
	}
}
