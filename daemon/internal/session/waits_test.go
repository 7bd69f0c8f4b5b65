package session

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/labels"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/daemon/internal/slots"
	"github.com/gopcp/pmcd/internal/fairqueue"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
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
	deadline  time.Time     // of reads, when there is no more input
	peer      conn.Peer
	onRead    func() // is called by Read, unless nil
	onWait    func() // is called by Wait when there is input, unless nil
	onWrite   func() // is called by Write, unless nil
}

func (c *fakeConn) Peer() conn.Peer             { return c.peer }
func (c *fakeConn) FD() int                     { return -1 }
func (c *fakeConn) Exclusive() bool             { return false }
func (c *fakeConn) SetReadDeadline(t time.Time) { c.deadline = t }
func (c *fakeConn) Abort()                      {}
func (c *fakeConn) Compact()                    {}

func (c *fakeConn) Close(last []byte) {
	if last != nil {
		c.replies <- last
	}
	if c.closed != nil {
		<-c.closed
	}
}

func (c *fakeConn) Wait() error {
	if c.piece > 0 && len(c.unread) > 0 {
		return nil
	}
	var ok bool
	if c.unread, ok = <-c.input; !ok {
		return io.EOF
	}
	if c.onWait != nil {
		c.onWait()
	}
	return nil
}

func (c *fakeConn) Read(b []byte) (n int, err error) {
	if c.onRead != nil {
		c.onRead()
	}
	switch {
	case len(c.unread) > 0:
	case c.deadline.IsZero():
		return 0, errors.New("a read without a deadline")
	default:
		return 0, os.ErrDeadlineExceeded
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

func (c *fakeConn) WriteFrom(src conn.Source) error {
	for buf := make([]byte, 1000); ; {
		b := src.Peek(buf)
		if len(b) == 0 {
			return nil
		}
		if _, err := c.Write(b); err != nil {
			return err
		}
		src.Advance(len(b))
	}
}

// A oneBatch is a session that has input once.
type oneBatch struct {
	*session
	over bool
}

func (s *oneBatch) Await() bool {
	defer func() { s.over = true }()
	return !s.over
}

// newServer returns a Server that can use table.
func newServer(t *testing.T, table *routes.Table, change func(*Config)) *Server {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	cfg := Config{
		ClientMemory:   1 << 20,
		Routes:         func() *routes.Table { return table },
		RequestTimeout: func() time.Duration { return 0 },
		MaxPDU:         64 << 10, MaxContexts: 1, MaxMetrics: 100, MaxReply: 64 << 10,
		Labels: labels.New(labels.Config{Hostname: func() (string, error) { return "host", nil }, Log: log, Limiter: diag.NewLogLimiter(log), Debug: diag.NewDebug("", log)}),
		Counts: new(pdu.Counts),
		Log:    log,
		Trace:  diag.NewTrace(0, log),
		Debug:  diag.NewDebug("", log),
	}
	if change != nil {
		change(&cfg)
	}
	cfg.Limiter = diag.NewLogLimiter(cfg.Log)
	srv := New(cfg)
	t.Cleanup(srv.Close)
	return srv
}

// withInput returns a session that has this input, and can use table.
func withInput(t *testing.T, table *routes.Table, ms ...pdu.Message) (*oneBatch, *fakeConn) {
	t.Helper()
	c := &fakeConn{peer: conn.Peer{Unix: true}, input: make(chan []byte, 1), replies: make(chan []byte, 10)}
	client, _ := newServer(t, table, nil).Accept(c)
	s := client.(*session)
	s.client.Version.Store(2)
	for _, m := range ms {
		var err error
		if c.unread, err = pdu.Append(c.unread, 0, m); err != nil {
			t.Fatal(err)
		}
	}
	return &oneBatch{session: s}, c
}

// A busyTransport is a Transport whose Send waits.
type busyTransport struct {
	*transport.Worker
	end <-chan struct{}
}

func (b busyTransport) Send(c *transport.Call) (transport.Reply, error) {
	if c.Waiter == nil {
		panic("a Call without Waiter")
	}
	c.BeforeWait(false)
	<-b.end
	return nil, transport.ErrLate
}

// A wait is a reason why a session waits.
type wait struct {
	name string

	// start has another goroutine serve a session, which waits. What it returns ends the wait
	// and is always called.
	start func(t *testing.T) (srv *Server, end func())
}

// While a session waits, others have its slot.
func TestNoSlotInWait(t *testing.T) {
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
	// request returns the wait of a session that answers ms. The agent is busy, or it has
	// not started.
	request := func(name string, started bool, ms ...pdu.Message) wait {
		return wait{name, func(t *testing.T) (*Server, func()) {
			end := make(chan struct{})
			table := agentsettest.StartTransport(t, domain, func() transport.Transport {
				if !started {
					<-end
				}
				return busyTransport{transport.Local(new(agentsettest.Namer)), end}
			}, new(pmnsload.Tree))
			if started {
				<-table.Agent(domain).Started()
			}
			s, c := withInput(t, table, ms...)
			s.cpu.Take()
			s.client.Container.Set("box")
			s.srv.cfg.ContainerHost = func(context.Context, string) (string, error) {
				<-end
				return "", nil
			}
			go s.srv.coroutines.Serve(s)
			return s.srv, func() {
				close(end)
				<-c.replies
			}
		}}
	}
	// serve returns the wait of a session that serves a client. Start is called meanwhile,
	// and returns when the session has no more to do.
	serve := func(name string, start func(c *fakeConn) (end func())) wait {
		return wait{name, func(t *testing.T) (*Server, func()) {
			s, c := withInput(t, routes.New(nil, new(pmnsload.Tree)), desc)
			s.cpu.Take()
			done := make(chan struct{})
			wait := make(chan func(), 1)
			go func() { wait <- start(c) }()
			go func() {
				defer close(done)
				s.session.Serve()
			}()
			end := <-wait
			return s.srv, func() {
				end()
				<-done
			}
		}}
	}
	one, other := pdu.NewPMID(domain, 0, 1), pdu.NewPMID(domain+1, 0, 1)
	for _, w := range []wait{
		request("for the first start of an agent", false, store(one)),
		request("for the agent of a descriptor", true, desc),
		request("for the agent of a fetch", true, fetch(one)...),
		request("for one of two agents of a fetch", true, fetch(one, other)...),
		request("for the agent of a store", true, store(one)),
		request("for one of two agents of a store", true, store(other, one)),
		request("for the host name in a container", true, fetch(hostnameID)...),
		{"for the client", func(t *testing.T) (*Server, func()) {
			s, _ := withInput(t, nil)
			s.cpu.Take()
			s.BeforeWait()
			return s.srv, func() {}
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
	} {
		t.Run(w.name, func(t *testing.T) {
			srv, end := w.start(t)
			defer end()
			testutil.Eventually(t, "the slot is given back", func() bool { return srv.slots.InUse() == 0 })
		})
	}
}

// A client is greeted, and its first PDU handled, while others have all slots: the acceptor does
// both, and must not wait.
func TestNoSlotToGreet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := withInput(t, routes.New(nil, new(pmnsload.Tree)))
		srv := s.srv
		end := make(chan struct{})
		defer close(end)
		for i := range 100 { // more than there are slots
			busy := srv.slots.Slot(&fairqueue.Key{Group: fairqueue.Group{ID: uint64(i)}})
			go func() {
				busy.Take()
				<-end
				busy.Release()
			}()
		}
		synctest.Wait()
		if !srv.Busy() {
			t.Error("there are more slots than the test takes")
		}
		began := time.Now()
		client, greeting := srv.Accept(&fakeConn{peer: conn.Peer{Unix: true}})
		creds, err := pdu.Append(nil, 0, pdutest.Creds(0))
		if err != nil {
			t.Fatal(err)
		}
		if _, handled := client.First(creds); len(greeting) == 0 || !handled {
			t.Errorf("greeting %x, CREDS handled: %v", greeting, handled)
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("it took %v of the fake clock", d)
		}
	})
}

// Requests that have arrived together take a slot each. A profile shares that of the next.
func TestSlotsOfPipelinedRequests(t *testing.T) {
	desc := &pdu.DescReq{PMID: pdu.NewPMID(240, 0, 1)}
	for _, tt := range []struct {
		name   string
		ms     []pdu.Message
		shared bool
	}{
		{"two requests", []pdu.Message{desc, desc}, false},
		{"a profile and a request", []pdu.Message{new(pdu.Profile), desc}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := withInput(t, routes.New(nil, new(pmnsload.Tree)), tt.ms...)
				for range max(2, runtime.GOMAXPROCS(0)) - 1 {
					s.srv.slots.Slot(&s.client.Key).Take()
				}
				s.cpu.Take() // the last one
				order := make(chan string, 10)
				go func() {
					other := s.srv.slots.Slot(&fairqueue.Key{Group: fairqueue.Group{ID: 7}})
					other.Take()
					order <- "other"
					other.Release()
				}()
				synctest.Wait()
				c.onWrite = func() { order <- "reply" }
				s.srv.coroutines.Serve(s)
				want := []string{"reply", "other", "reply"}
				if tt.shared {
					want = []string{"reply", "other"}
				}
				for i, w := range want {
					if got := <-order; got != w {
						t.Errorf("%d: %s, want %s", i, got, w)
					}
				}
			})
		})
	}
}

// A long request whose rest has arrived comes before those of its user or host that have not begun,
// which have no memory yet.
func TestLongRequestIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := withInput(t, routes.New(nil, new(pmnsload.Tree)), new(pdu.Profile), &pdu.PMNSNames{Names: []string{strings.Repeat("x", 2*freeRequest)}})
		c.piece = freeRequest
		all := max(2, runtime.GOMAXPROCS(0))
		var held []*slots.Slot
		order := make(chan string, 2)
		c.onRead = func() {
			if len(held) == 0 && len(c.unread) <= freeRequest { // the last piece
				for range all {
					held = append(held, s.srv.slots.Slot(new(fairqueue.Key)))
					held[len(held)-1].Take()
				}
				go func() {
					other := s.srv.slots.Slot(&s.client.Key)
					other.Take()
					order <- "other"
					other.Release()
				}()
				synctest.Wait()
				go func() {
					time.Sleep(time.Millisecond) // a slot that is held for longer is not counted
					held[0].Release()
				}()
			}
		}
		c.onWrite = func() { order <- "reply" }
		s.srv.coroutines.Serve(s)
		if first, second := <-order, <-order; first != "reply" || second != "other" {
			t.Errorf("%s was before %s", first, second)
		}
	})
}

// A client that sends a request in small pieces does not keep others out: the session has
// no slot while it reads the rest.
func TestNoSlotForPieces(t *testing.T) {
	s, c := withInput(t, routes.New(nil, new(pmnsload.Tree)), &pdu.DescReq{PMID: pdu.NewPMID(240, 0, 1)}) // 16 bytes
	var inUse []int
	c.piece, c.onRead = 4, func() { inUse = append(inUse, s.srv.slots.InUse()) }
	s.cpu.Take()
	s.srv.coroutines.Serve(s)
	<-c.replies
	if want := []int{1, 0, 0, 0}; !slices.Equal(inUse, want) {
		t.Errorf("%v slots were in use at each read, want %v", inUse, want)
	}
}

// A session in TLS that waits for others to end their requests has no slot.
func TestNoSlotBeforeProgress(t *testing.T) {
	s, c := withInput(t, routes.New(nil, new(pmnsload.Tree)), &pdu.DescReq{PMID: pdu.NewPMID(240, 0, 1)})
	s.srv.inProgress = fairqueue.NewLimiter(1)
	var other fairqueue.Use
	s.srv.inProgress.Start(&other, 1, &s.client.Key)
	done := make(chan struct{})
	c.input <- c.unread
	c.onWait = s.BeforeWork
	go func() {
		defer close(done)
		s.session.Serve()
	}()
	testutil.Eventually(t, "the session waits", func() bool { return s.srv.inProgress.Waiting() == 1 })
	if n := s.srv.slots.InUse(); n != 0 {
		t.Errorf("%d slots are in use while it waits", n)
	}
	other.End()
	<-c.replies
	close(c.input)
	<-done
}

// A lookups is a Resolver that counts how often it is asked, and the slots in use then.
type lookups struct {
	pool     *slots.Pool
	n, inUse int
}

func (l *lookups) Groups(uint32) ([]uint32, error) {
	l.n++
	l.inUse += l.pool.InUse()
	return []uint32{7}, nil
}

// While the operating system is asked for users and groups, others have the slot.
func TestNoSlotInLookup(t *testing.T) {
	s, _ := withInput(t, new(routes.Table))
	p := &lookups{pool: s.srv.slots}
	rules, err := access.New([]access.Rule{{Kind: access.Group, Name: "g", ID: 7, Specified: access.Store, Denied: access.Store}}, access.Env{Accounts: p})
	if err != nil {
		t.Fatal(err)
	}
	s.srv.ApplyRules(rules)
	s.client.Peer = access.Peer{Family: access.Unix, HasUser: true}
	if code := s.admit(); code != 0 {
		t.Fatal(code)
	}
	s.cpu.Take()
	if codes := s.checkAccount(); codes != nil {
		t.Error(codes)
	}
	if n := s.srv.slots.InUse(); p.n != 1 || p.inUse != 0 || n != 1 {
		t.Errorf("%d lookups, %d slots in use meanwhile and %d after that, want 1, 0 and 1", p.n, p.inUse, n)
	}
}
