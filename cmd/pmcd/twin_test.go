package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/pdu"
)

// answering is an agent whose only metric has a value of its own, and that can
// be told who its clients are.
type answering struct {
	value   uint32
	die     atomic.Bool
	clients map[int32]string // containers
}

var answer = pdu.NewPMID(60, 0, 0)

func (*answering) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	if id != answer {
		return pdu.Desc{}, pdu.ErrnoPMID
	}
	return pdu.Desc{PMID: id, ValueType: pdu.MetricU32, InDom: pdu.NoInDom, Sem: pdu.SemInstant}, nil
}

func (a *answering) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	if a.die.Load() {
		panic("ouch")
	}
	for _, id := range r.PMIDs {
		if id != answer {
			w.Fail(id, pdu.ErrnoPMID)
			continue
		}
		w.Begin(id)
		w.Word(-1, a.value+uint32(len(a.clients[r.Origin.Client])))
	}
	return nil
}

func (a *answering) SetAttr(client int32, attr pdu.Attr) {
	if attr.Code == pdu.AttrContainer {
		a.clients[client] = string(attr.Value)
	}
}

func (a *answering) EndContext(client int32) { delete(a.clients, client) }

// ended is a process that ends when its conduit does.
type ended struct{ conduit transport.Transport }

func (e ended) PID() int                   { return 4711 }
func (e ended) Done() <-chan struct{}      { return e.conduit.Done() }
func (e ended) Status() syscall.WaitStatus { return 9 }
func (e ended) Stop(context.Context)       {}
func (e ended) StderrTail() []string       { return []string{"farewell"} }

// A twinRig is a twin whose value is 100 in this process and 200 in the other.
type twinRig struct {
	*twin
	t      *testing.T
	starts atomic.Int32
	fail   atomic.Bool
	other  atomic.Pointer[answering]
	log    *observer.ObservedLogs
	socket net.Listener // pmdaroot's
	clock  atomic.Int64 // how far it was put forward
}

func newTwinRig(t *testing.T) *twinRig {
	core, log := observer.New(zap.InfoLevel)
	r := &twinRig{t: t, log: log}
	here := &answering{value: 100, clients: make(map[int32]string)}
	r.twin = newTwin(transport.Local(here), "box", zap.New(core), func(context.Context) (*transport.Conn, error) {
		r.starts.Add(1)
		if r.fail.Load() {
			return nil, errors.New("no process")
		}
		other := &answering{value: 200, clients: make(map[int32]string)}
		r.other.Store(other)
		c := transport.Local(other)
		return &transport.Conn{Transport: c, Process: ended{c}}, nil
	})
	r.now = func() time.Time { return time.Now().Add(time.Duration(r.clock.Load())) }
	r.root = filepath.Join(t.TempDir(), "root.socket")
	var err error
	if r.socket, err = net.Listen("unix", r.root); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		r.socket.Close()
	})
	return r
}

func (r *twinRig) choose(client int32, container string) {
	r.Notify(transport.Notice{Client: client, Attrs: []pdu.Attr{{Code: pdu.AttrUserID, Value: []byte("0")}, {Code: pdu.AttrContainer, Value: []byte(container)}}})
}

// fetch returns the value that a client gets.
func (r *twinRig) fetch(client int32) (uint32, error) {
	var res pdu.Result
	err := agenttest.Do(r, agents.Origin{Client: client}, &pdu.Fetch{PMIDs: []pdu.PMID{answer}}, &res)
	if err != nil {
		return 0, err
	}
	return res.Sets[0].Values[0].Word, nil
}

func (r *twinRig) want(client int32, want uint32) {
	r.t.Helper()
	if got, err := r.fetch(client); got != want || err != nil {
		r.t.Errorf("client %d: got %d, %v, want %d", client, got, err, want)
	}
}

// soon lets the process be started again.
func (r *twinRig) soon() { r.clock.Add(int64(twinRestart)) }

// Who has chosen a container is served by the process, which is there for as
// long as somebody has and a while longer, and is told who they are.
func TestTwin(t *testing.T) {
	r := newTwinRig(t)
	agenttest.Test(t, r, answer)
	r.Notify(transport.Notice{Client: 1, Attrs: []pdu.Attr{{Code: pdu.AttrUserID, Value: []byte("0")}}})
	r.want(1, 100)
	r.choose(2, "box")
	if r.starts.Load() != 0 {
		t.Error("there is a process that nobody has asked for something")
	}
	r.want(2, 203)
	r.want(1, 100)
	r.choose(0, "box")
	agenttest.Test(t, r, answer)
	r.choose(0, "")
	r.choose(3, "crate")
	r.want(3, 205)
	r.choose(2, "")
	r.want(2, 100)
	r.want(3, 205)
	if got := r.other.Load().clients; len(got) != 1 {
		t.Errorf("the process has the clients %v", got)
	}
	r.Notify(transport.Notice{Client: 3, End: true, Attrs: []pdu.Attr{{Code: pdu.AttrContainer, Value: []byte("ab")}}})
	r.want(3, 202)
	r.Notify(transport.Notice{Client: 3, End: true})
	r.want(3, 100)
	r.choose(3, "box")
	r.want(3, 203)
	if n := r.starts.Load(); n != 1 {
		t.Errorf("%d starts", n)
	}
	r.mu.Lock()
	link := r.link
	r.linger = 0
	r.mu.Unlock()
	r.Notify(transport.Notice{Client: 3, End: true})
	<-link.Transport.Done()
	r.choose(3, "box")
	r.soon()
	r.want(3, 203)
	if n := r.starts.Load(); n != 2 {
		t.Errorf("%d starts", n)
	}
	link = r.link
	r.Close()
	<-link.Transport.Done()
	if _, err := r.fetch(3); err == nil {
		t.Error("it answers after its end")
	}
}

// The end of the process costs those who wait for it, and no one else.
func TestTwinFails(t *testing.T) {
	r := newTwinRig(t)
	r.choose(2, "box")
	r.fail.Store(true)
	for range 2 {
		if _, err := r.fetch(2); err != transport.ErrLate {
			t.Errorf("without a process: %v", err)
		}
	}
	if n := r.starts.Load(); n != 1 {
		t.Errorf("%d starts at once", n)
	}
	r.want(1, 100)
	r.fail.Store(false)
	r.soon()
	r.want(2, 203)
	r.other.Load().die.Store(true)
	if _, err := r.fetch(2); err != transport.ErrLate {
		t.Errorf("when the process ends: %v", err)
	}
	r.want(1, 100)
	r.soon()
	r.want(2, 203)

	// One that ends while nobody asks is noticed by the next one.
	r.link.Transport.Close()
	<-r.link.Transport.Done()
	r.soon()
	r.want(2, 203)
	if n := r.starts.Load(); n != 4 {
		t.Errorf("%d starts, want 4", n)
	}
	for _, want := range []string{
		`cannot start a process of agent "box" for containers, next try in 1m0s at the earliest: no process`,
		`agent "box" has a process for containers, pid 4711`,
		`the process of agent "box" for containers is down: `,
		"\n    farewell",
	} {
		if !peer.Until(10*time.Second, func() bool {
			return slices.ContainsFunc(r.log.All(), func(e observer.LoggedEntry) bool { return strings.Contains(e.Message, want) })
		}) {
			t.Errorf("the log has no %q: %v", want, r.log.All())
		}
	}
}

// Clients that invent names of containers have a process started once a minute,
// whether it can be started, ends by itself or is not needed any more.
func TestTwinStartsOnceAMinute(t *testing.T) {
	for _, what := range []string{"goes on", "fails", "dies", "rests"} {
		t.Run(what, func(t *testing.T) {
			r := newTwinRig(t)
			r.fail.Store(what == "fails")
			r.linger = 0
			for i := range 240 { // four minutes, a client each second
				client := int32(i%7 + 1)
				r.choose(client, fmt.Sprint("made-up-", i))
				_, err := r.fetch(client)
				if what == "goes on" && err != nil {
					t.Fatal(err)
				}
				r.mu.Lock()
				link := r.link
				r.mu.Unlock()
				if what == "rests" {
					r.Notify(transport.Notice{Client: client, End: true})
				}
				if link != nil && what != "goes on" {
					if what == "dies" {
						link.Transport.Close()
					}
					<-link.Transport.Done()
				}
				r.clock.Add(int64(time.Second))
			}
			want := int32(4)
			if what == "goes on" {
				want = 1
			}
			if n := r.starts.Load(); n != want {
				t.Errorf("%d starts, want %d", n, want)
			}
		})
	}
}

// Where there is no pmdaroot there are no containers, and no process is started
// for those who ask for one.
func TestTwinWithoutPmdaroot(t *testing.T) {
	r := newTwinRig(t)
	r.socket.Close() // which removes it
	r.choose(2, "made-up")
	r.want(2, 107)
	r.clock.Add(int64(twinLook))
	if err := os.WriteFile(r.root, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	r.want(2, 107)
	if n := r.starts.Load(); n != 0 {
		t.Errorf("%d starts", n)
	}
	if err := os.Remove(r.root); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", r.root)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r.want(2, 107) // as of just now
	r.clock.Add(int64(twinLook))
	r.want(2, 207)
	if n := r.starts.Load(); n != 1 {
		t.Errorf("%d starts", n)
	}
}

// The socket is found in a directory that only root can look into.
func TestListens(t *testing.T) {
	if path := os.Getenv("PMCD_TEST_LISTENS"); path != "" {
		fmt.Println("there:", listens(path))
		return
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "hidden", "root.socket")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	look := func(path string) string {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestListens$")
		cmd.Env = append(os.Environ(), "PMCD_TEST_LISTENS="+path)
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		} else if err := os.Chmod(filepath.Dir(path), 0); err != nil {
			t.Fatal(err)
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		line, _, _ := strings.Cut(string(out), "\n")
		return line
	}
	if got := look(path); got != "there: true" {
		t.Errorf("a socket: %s", got)
	}
	if got := look(path[:len(path)-1]); got != "there: false" {
		t.Errorf("none: %s", got)
	}
	l.Close()
	if got := look(path); got != "there: false" {
		t.Errorf("after its end: %s", got)
	}
}
