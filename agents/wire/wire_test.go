package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/proc"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
)

// answer is an Agent with one metric.
type answer struct{}

var answerID = pdu.NewPMID(400, 0, 1)

func (answer) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	if id != answerID {
		return pdu.Desc{}, pdu.ErrnoPMID
	}
	return pdu.Desc{PMID: id, InDom: pdu.NoInDom}, nil
}

func (answer) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	for _, id := range r.PMIDs {
		if id != answerID {
			w.Fail(id, pdu.ErrnoPMID)
			continue
		}
		w.Begin(id)
		w.Word(-1, 42)
	}
	return nil
}

// The test binary is its own PMDA: run under this name it serves answer on
// its standard input and output.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "pmdaanswer" {
		wire.Serve(context.Background(), answer{}, stdio{os.Stdin, os.Stdout})
		os.Exit(0)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // for children
	os.Exit(m.Run())
}

// stdio are the PMDA's ends of two pipes.
type stdio struct {
	io.Reader
	io.WriteCloser
}

// startPMDA runs argv and returns a Client of it. Both are gone when t ends.
func startPMDA(t testing.TB, opt wire.Options, argv ...string) (*wire.Client, *proc.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	p, err := proc.Start(proc.Spec{Argv: argv, Pipes: true, Stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		p.Stop(ctx)
	})
	c, err := wire.Dial(ctx, p.Pipes, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, p
}

func startSelf(t testing.TB) *wire.Client {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pmda := filepath.Join(t.TempDir(), "pmdaanswer")
	if err := os.Symlink(self, pmda); err != nil {
		t.Fatal(err)
	}
	c, _ := startPMDA(t, wire.Options{}, pmda)
	return c
}

// socketPair returns both ends of a stream.
func socketPair(t testing.TB) (here, there wire.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]wire.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socketpair")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = c.(wire.Conn)
	}
	return ends[0], ends[1]
}

// pipePair is socketPair for two pipes. Who is alone reads here directly.
func pipePair(t testing.TB) (here, there wire.Conn) {
	t.Helper()
	var ends [4]*os.File
	for i := 0; i < len(ends); i += 2 {
		var err error
		if ends[i], ends[i+1], err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
	}
	return proc.NewPipes(ends[0], ends[3]), proc.NewPipes(ends[2], ends[1])
}

// frozenPair is pipePair for lack of descriptors: what is read directly stays so.
func frozenPair(t testing.TB) (here, there wire.Conn) {
	t.Helper()
	here, there = pipePair(t)
	return frozen{here.(*proc.Pipes)}, there
}

type frozen struct{ *proc.Pipes }

func (s frozen) Direct(on bool) bool { return on && s.Pipes.Direct(on) }

// inAllWays runs test with a stream that is read through the poller, and with
// some that those read directly who are alone: the calls of send, ask and desc.
func inAllWays(t *testing.T, test func(t *testing.T, pair pair)) {
	t.Run("sockets", func(t *testing.T) { test(t, socketPair) })
	t.Run("pipes", func(t *testing.T) { test(t, pipePair) })
	t.Run("frozen", func(t *testing.T) { test(t, frozenPair) })
}

type pair func(testing.TB) (here, there wire.Conn)

// alone is a Conduit whose caller is alone.
type alone struct{ agents.Conduit }

func (a alone) Send(call *agents.Call) error {
	call.Alone = true
	return a.Conduit.Send(call)
}

// serve runs a with Serve and returns a Client of it. Both are gone when t
// ends.
func serve(t *testing.T, a agents.Agent, opt wire.Options) *wire.Client {
	t.Helper()
	here, there := socketPair(t)
	served := make(chan error, 1)
	go func() { served <- wire.Serve(context.Background(), a, there) }()
	c, err := wire.Dial(t.Context(), here, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return c
}

// One suite, several ways to reach an agent.
func TestAgent(t *testing.T) {
	t.Run("in process", func(t *testing.T) {
		c := agents.Inline(answer{})
		defer c.Close()
		agenttest.Test(t, c, answerID)
	})
	t.Run("in process, apart", func(t *testing.T) {
		c := agents.Local(answer{})
		defer c.Close()
		agenttest.Test(t, c, answerID)
	})
	t.Run("connection", func(t *testing.T) {
		agenttest.Test(t, serve(t, answer{}, wire.Options{}), answerID)
	})
	t.Run("child", func(t *testing.T) {
		agenttest.Test(t, startSelf(t), answerID)
	})
	t.Run("child, alone", func(t *testing.T) {
		agenttest.Test(t, alone{startSelf(t)}, answerID)
	})
}

func TestPeerSample(t *testing.T) {
	const pmda = "/var/lib/pcp/pmdas/sample/pmdasample"
	needPeer(t, pmda)
	c, _ := startPMDA(t, wire.Options{}, pmda, "-d", "29", "-l", filepath.Join(t.TempDir(), "log"), "-U", "root")
	agenttest.Test(t, c, pdu.NewPMID(29, 0, 10), pdu.NewPMID(29, 0, 6))
	var r pdu.Result // of sample.bin
	if err := agenttest.Do(c, agents.Origin{}, &pdu.Fetch{PMIDs: []pdu.PMID{pdu.NewPMID(29, 0, 6)}}, &r); err != nil {
		t.Fatal(err)
	}
	if n := len(r.Sets[0].Values); n != 9 {
		t.Errorf("sample.bin has %d values, want 9", n)
	}
	for _, v := range r.Sets[0].Values {
		if v.Word != uint32(v.Inst) { // bin-100 is 100, and so on
			t.Errorf("sample.bin[%d] = %d", v.Inst, v.Word)
		}
	}
}

// needPeer skips the test if a program of PCP is not installed, and fails it
// where PMCD_REQUIRE_PEERS says that it must be.
func needPeer(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("PMCD_REQUIRE_PEERS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// eventually waits for cond.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// checkGoroutines fails t if at its end there are more goroutines than now.
func checkGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for range 500 {
			if runtime.NumGoroutine() <= before {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("%d goroutines before, %d after", before, runtime.NumGoroutine())
	})
}

// Many callers of one agent, with one request outstanding and with several:
// each gets its own reply.
func TestConcurrent(t *testing.T) {
	checkGoroutines(t)
	for name, cd := range map[string]agents.Conduit{
		"inline":   agents.Inline(answer{}),
		"local":    agents.Local(answer{}),
		"depth 1":  serve(t, answer{}, wire.Options{}),
		"depth 16": serve(t, answer{}, wire.Options{Depth: 16}),
		"child":    startSelf(t),
	} {
		t.Run(name, func(t *testing.T) {
			defer cd.Close()
			var wg sync.WaitGroup
			for client := range int32(8) {
				wg.Go(func() {
					for i := range 200 {
						id := pdu.NewPMID(400, int(client)+1, i)
						o := agents.Origin{Client: client}
						if i%10 == 9 {
							cd.Notify(agents.Notice{Client: client, End: true})
						}
						var r pdu.Result
						if err := agenttest.Do(cd, o, &pdu.Fetch{PMIDs: []pdu.PMID{id}}, &r); err != nil {
							t.Error(err)
							return
						}
						if r.Sets[0].PMID != id {
							t.Errorf("%v in place of %v", r.Sets[0].PMID, id)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// send sends a DESC_REQ and does not wait for the reply.
func send(t *testing.T, c agents.Conduit, timeout time.Duration, several bool) *agents.Call {
	t.Helper()
	req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: answerID})
	if err != nil {
		t.Fatal(err)
	}
	call := &agents.Call{Alone: true, Req: req, Timeout: timeout, Several: several}
	if err := c.Send(call); err != nil {
		t.Fatal(err)
	}
	return call
}

// A caller that has sent to an agent and is busy elsewhere holds up nobody:
// the next caller reads the reply on its behalf.
func TestReplyIsReadForTheAbsent(t *testing.T) {
	checkGoroutines(t)
	c := serve(t, answer{}, wire.Options{})
	first := send(t, c, 0, true)
	for range 3 {
		second := send(t, c, 0, true) // reads the reply to the one before
		if b, err := c.Recv(first, []byte("x")); err != nil || string(b[:1]) != "x" {
			t.Fatal(err)
		}
		first = second
	}
	if _, err := c.Recv(first, nil); err != nil {
		t.Fatal(err)
	}

	// And so does one who waited in front of one that is absent.
	first = send(t, c, 0, true)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			call := send(t, c, 0, true)
			if _, err := c.Recv(call, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, err := c.Recv(first, nil); err != nil {
		t.Error(err)
	}
}

// gate is an answer whose Desc of another metric waits to be let through.
type gate struct {
	answer
	entered, open chan struct{}
}

func (g gate) Desc(ctx context.Context, o agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	if id != answerID {
		g.entered <- struct{}{}
		<-g.open
	}
	return g.answer.Desc(ctx, o, id)
}

// A late agent costs its caller the timeout and others nothing. When the
// reply has come it is thrown away, and the agent is as good as before.
func TestLate(t *testing.T) {
	checkGoroutines(t)
	g := gate{entered: make(chan struct{}, 1), open: make(chan struct{})}
	states := make(chan wire.State, 10)
	cd := serve(t, g, wire.Options{OnState: func(s wire.State) { states <- s }})
	req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := agents.Call{Req: req, Timeout: 50 * time.Millisecond}
	if err := cd.Send(&c); err != nil {
		t.Fatal(err)
	}
	<-g.entered
	waited := make(chan error) // by one who waits for the slot
	go func() {
		waited <- agenttest.Do(cd, agents.Origin{}, &pdu.DescReq{PMID: answerID}, new(pdu.Desc))
	}()
	if b, err := cd.Recv(&c, []byte("x")); err != agents.ErrLate || string(b) != "x" {
		t.Errorf("Recv: %q, %v, want ErrLate", b, err)
	}
	if err := <-waited; err != agents.ErrLate {
		t.Errorf("waiting Send: %v, want ErrLate", err)
	}
	if err := cd.Send(&agents.Call{Req: req}); err != agents.ErrLate {
		t.Errorf("Send: %v, want ErrLate", err)
	}
	if s := <-states; s != wire.Late || cd.State() != wire.Late {
		t.Errorf("state %v, told %v, want late", cd.State(), s)
	}
	close(g.open)
	eventually(t, "well again", func() bool { return cd.State() == wire.Ready })
	if s := <-states; s != wire.Ready {
		t.Errorf("told %v, want ready", s)
	}
	agenttest.Test(t, late{cd, g}, answerID)
}

// late lets the suite through a gate that is open.
type late struct {
	agents.Conduit
	g gate
}

func (l late) Recv(c *agents.Call, dst []byte) ([]byte, error) {
	b, err := l.Conduit.Recv(c, dst)
	select {
	case <-l.g.entered:
	default:
	}
	return b, err
}

// One who waits behind others for longer than its timeout gives up, and the
// agent is not late for it.
func TestWaitHasABound(t *testing.T) {
	checkGoroutines(t)
	g := gate{entered: make(chan struct{}, 1), open: make(chan struct{})}
	cd := serve(t, g, wire.Options{})
	req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := agents.Call{Req: req, Timeout: 0}
	if err := cd.Send(&c); err != nil {
		t.Fatal(err)
	}
	reply := make(chan error)
	go func() {
		_, err := cd.Recv(&c, nil)
		reply <- err
	}()
	<-g.entered
	eventually(t, "another reads", func() bool {
		c := agents.Call{Req: req, Timeout: 10 * time.Millisecond}
		return cd.Send(&c) == agents.ErrLate
	})
	if cd.State() != wire.Ready {
		t.Errorf("state %v, want ready", cd.State())
	}
	close(g.open)
	if err := <-reply; err != nil {
		t.Error(err)
	}
}

type panics struct{ answer }

func (panics) Desc(context.Context, agents.Origin, pdu.PMID) (pdu.Desc, error) { panic("ouch") }

// A panic of an agent in process ends that agent.
func TestPanic(t *testing.T) {
	checkGoroutines(t)
	c := agents.Inline(panics{})
	for range 2 { // the error sticks
		err := agenttest.Do(c, agents.Origin{}, &pdu.DescReq{PMID: answerID}, new(pdu.Desc))
		if err == nil || !strings.Contains(err.Error(), "ouch") {
			t.Errorf("got %v, want ouch", err)
		}
	}
	<-c.Done()
	c.Close()
}

// told is an answer that remembers what it is told.
type told struct {
	answer
	mu   sync.Mutex
	said []string
}

func (a *told) say(s string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.said = append(a.said, s)
}

func (a *told) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.said)
}

func (a *told) SetAttr(client int32, attr pdu.Attr) {
	a.say(fmt.Sprintf("%d is %s", client, attr.Value))
}
func (a *told) EndContext(client int32) { a.say(fmt.Sprintf("%d ends", client)) }
func (a *told) Desc(ctx context.Context, o agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	a.say(fmt.Sprintf("%d asks", o.Client))
	return a.answer.Desc(ctx, o, id)
}

// What a client is comes before its requests, and its end before those of the
// next one with its number; an agent that is idle is told at once.
func TestNotices(t *testing.T) {
	checkGoroutines(t)
	a := new(told)
	c := serve(t, a, wire.Options{})
	if !c.WantsAttrs() {
		t.Fatal("wants no attributes")
	}
	attr := func(s string) []pdu.Attr { return []pdu.Attr{{Code: pdu.AttrUserID, Value: []byte(s)}} }
	c.Notify(agents.Notice{Client: 1, Attrs: attr("alice")})
	eventually(t, "told when idle", func() bool { return len(a.all()) == 1 })

	busy := send(t, c, 0, true) // nothing may be sent now
	c.Notify(agents.Notice{Client: 1, End: true})
	c.Notify(agents.Notice{Client: 1, Attrs: attr("bob")})
	c.Notify(agents.Notice{Client: 1, End: true})
	c.Notify(agents.Notice{Client: 1, Attrs: attr("carol")})
	if _, err := c.Recv(busy, nil); err != nil {
		t.Fatal(err)
	}
	agenttest.Do(c, agents.Origin{Client: 1}, &pdu.DescReq{PMID: answerID}, new(pdu.Desc))
	want := []string{"1 is alice", "0 asks", "1 ends", "1 is carol", "1 asks"}
	if got := a.all(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// profiles counts the profiles it gets, by their address.
type profiles struct {
	answer
	mu   sync.Mutex
	seen map[*pdu.Profile]bool
	last agents.Origin
}

func (a *profiles) Fetch(ctx context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	a.mu.Lock()
	a.seen[r.Profile], a.last = true, r.Origin
	a.mu.Unlock()
	return a.answer.Fetch(ctx, r, w)
}

// profiles returns how many it was sent.
func (a *profiles) profiles() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.seen)
}

// A profile is sent when the agent has another one, or that of another context,
// and only then; one that is about no instance domain is anybody's.
func TestProfiles(t *testing.T) {
	a := &profiles{seen: make(map[*pdu.Profile]bool)}
	c := serve(t, a, wire.Options{})
	some := []pdu.InDomProfile{{InDom: 1, Insts: []int32{1}}}
	p, q := &pdu.Profile{Context: 3, InDoms: some}, &pdu.Profile{InDoms: some}
	all, also, none := &pdu.Profile{Context: 3}, new(pdu.Profile), &pdu.Profile{Exclude: true}
	req, err := pdu.Append(nil, 0, &pdu.Fetch{Context: 3, PMIDs: []pdu.PMID{answerID}})
	if err != nil {
		t.Fatal(err)
	}
	o, other := agents.Origin{Client: 1, Context: 3}, agents.Origin{Client: 2, Context: 3}
	steps := []struct {
		name string
		call agents.Call
		want int
	}{
		{"first", agents.Call{Origin: o, Profile: p}, 1},
		{"same again", agents.Call{Origin: o, Profile: p}, 1},
		{"replaced", agents.Call{Origin: o, Profile: q}, 2},
		{"of another client", agents.Call{Origin: other, Profile: q}, 3},
		{"all instances", agents.Call{Origin: o, Profile: all}, 4},
		{"all instances for another client", agents.Call{Origin: other, Profile: all}, 4},
		{"all instances, replaced", agents.Call{Origin: o, Profile: also}, 4},
		{"no instances", agents.Call{Origin: o, Profile: none}, 5},
		{"no instances for another client", agents.Call{Origin: other, Profile: none}, 5},
		{"back", agents.Call{Origin: o, Profile: q}, 6},
	}
	for _, s := range steps {
		s.call.Req = req
		if err := c.Send(&s.call); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Recv(&s.call, nil); err != nil {
			t.Fatal(err)
		}
		if n := a.profiles(); n != s.want {
			t.Errorf("%s: %d profiles, want %d", s.name, n, s.want)
		}
	}
	c.Notify(agents.Notice{Client: 1, End: true})
	call := agents.Call{Origin: o, Profile: q, Req: req}
	if err := c.Send(&call); err != nil {
		t.Fatal(err)
	}
	c.Recv(&call, nil)
	if n := a.profiles(); n != 7 {
		t.Errorf("after the end of the client: %d profiles, want 7", n)
	}
}

// An agent whose process ends while nobody asks it anything ends at once.
func TestPeerGone(t *testing.T) {
	checkGoroutines(t)
	c, p := startPMDA(t, wire.Options{}, "/bin/sh", "-c", strings.Replace(hello, "head -c 36", "head -c 20", 1)+"exit 3")
	<-p.Done()
	reason := errors.New("gone")
	c.PeerGone(reason)
	<-c.Done()
	if err := desc(c); !errors.Is(err, reason) {
		t.Errorf("got %v, want %v", err, reason)
	}
}

// An agent that reads nothing is late, and gets all of the request when it
// reads again.
func TestAgentThatDoesNotRead(t *testing.T) {
	checkGoroutines(t)
	c, _ := startPMDA(t, wire.Options{}, "/bin/sh", "-c", strings.Replace(hello, "head -c 36", "head -c 20", 1)+
		`sleep 0.3; head -c 400028 >/dev/null; printf '`+code+`'; `+take+`printf '`+code+`'; cat >/dev/null`)
	req, err := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: make([]pdu.PMID, 100_000)})
	if err != nil {
		t.Fatal(err)
	}
	call := agents.Call{Req: req, Timeout: 50 * time.Millisecond}
	err = c.Send(&call)
	if err == nil {
		_, err = c.Recv(&call, nil)
	}
	if err != agents.ErrLate {
		t.Fatalf("got %v, want %v", err, agents.ErrLate)
	}
	eventually(t, "well again", func() bool { return c.State() == wire.Ready })
	if err := desc(c); err != pdu.ErrnoPMID {
		t.Errorf("afterwards: %v, want %v", err, pdu.ErrnoPMID)
	}
}

// One fetch of one metric, over os.Pipe, to a child process and back.
func BenchmarkFetchChild(b *testing.B) { benchmarkFetch(b, startSelf(b)) }

func BenchmarkFetchInline(b *testing.B) {
	c := agents.Inline(answer{})
	defer c.Close()
	benchmarkFetch(b, c)
}

func benchmarkFetch(b *testing.B, cd agents.Conduit) {
	req, err := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: []pdu.PMID{answerID}})
	if err != nil {
		b.Fatal(err)
	}
	c := agents.Call{Profile: new(pdu.Profile), Req: req, Timeout: 5 * time.Second}
	var reply []byte
	b.ReportAllocs()
	for b.Loop() {
		if err := cd.Send(&c); err != nil {
			b.Fatal(err)
		}
		if reply, err = cd.Recv(&c, reply[:0]); err != nil {
			b.Fatal(err)
		}
	}
}

// A stream that was given as a descriptor that blocks stops nobody: Dial ends in
// its time, and the garbage collector runs meanwhile.
func TestDescriptorThatBlocks(t *testing.T) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fds[1])
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	dialed := make(chan error)
	go func() {
		_, err := wire.Dial(ctx, os.NewFile(uintptr(fds[0]), "blocks"), wire.Options{})
		dialed <- err
	}()
	runtime.GC()
	if err := <-dialed; err == nil {
		t.Error("dialed")
	}
}
