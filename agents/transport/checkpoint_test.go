package transport_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
)

// A fakePlace is a Place that notes what is done with it and its forks.
type fakePlace struct {
	notes   *placeNotes
	name    string
	overdue *atomic.Bool
}

type placeNotes struct {
	mu          sync.Mutex
	own, others []string
}

func (p fakePlace) note(what string) {
	p.notes.mu.Lock()
	defer p.notes.mu.Unlock()
	if p.name == "p" {
		p.notes.own = append(p.notes.own, what)
	} else {
		p.notes.others = append(p.notes.others, what+" "+p.name)
	}
}

func (p fakePlace) Enter()                { p.note("enter"); p.overdue.Store(false) }
func (p fakePlace) EnterAgain()           { p.note("enter again"); p.overdue.Store(false) }
func (p fakePlace) EnterFirst()           { p.note("enter first"); p.overdue.Store(false) }
func (p fakePlace) Leave()                { p.note("leave") }
func (p fakePlace) Overdue() bool         { return p.overdue.Load() }
func (p fakePlace) Fork() transport.Place { return fakePlace{p.notes, p.name + "'", p.overdue} }

// A longAgent calls Checkpoint several times in Desc. Others wait at the first.
type longAgent struct{ overdue *atomic.Bool }

func (a longAgent) Desc(ctx context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	a.overdue.Store(true)
	for range 3 {
		if err := agents.Checkpoint(ctx); err != nil {
			return pdu.Desc{}, err
		}
	}
	return pdu.Desc{PMID: id}, nil
}

func (a longAgent) Fetch(context.Context, *agents.FetchRequest, *pdu.ResultWriter) error { return nil }

// A method is called in a place. At a Checkpoint it gives the place back if others wait. It
// goes on in another one, or without one if others wait for the agent. The caller's place
// is never entered by another goroutine.
func TestCheckpoint(t *testing.T) {
	for _, tt := range []struct {
		name        string
		open        func(agents.Agent) transport.Transport
		own, others []string
	}{
		{"inline", func(a agents.Agent) transport.Transport { return transport.Inline(a) },
			[]string{"enter", "leave"}, []string{"enter again p'", "leave p'"}},
		{"worker", func(a agents.Agent) transport.Transport { return transport.Local(a) },
			[]string{"leave"}, []string{"enter first p'", "leave p'", "leave p'"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var notes placeNotes
			place := fakePlace{&notes, "p", new(atomic.Bool)}
			w := tt.open(longAgent{place.overdue})
			req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: id(plain)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := transport.Do(w, &transport.Call{Req: req, Place: place}, nil); err != nil {
				t.Fatal(err)
			}
			w.Close()
			if !slices.Equal(notes.own, tt.own) || !slices.Equal(notes.others, tt.others) {
				t.Errorf("got %q and %q, want %q and %q", notes.own, notes.others, tt.own, tt.others)
			}
		})
	}
}

// A blockedPlace cannot be entered until it is opened. It notes if two goroutines enter it
// at a time.
type blockedPlace struct {
	fakePlace
	entering *atomic.Int32
	twice    *atomic.Bool
	waits    chan struct{}
	open     chan struct{}
}

func (p blockedPlace) EnterFirst() { p.Enter() }

func (p blockedPlace) Enter() {
	if p.entering.Add(1) > 1 {
		p.twice.Store(true)
	}
	defer p.entering.Add(-1)
	select {
	case p.waits <- struct{}{}:
	default:
	}
	<-p.open
}

// A callSession makes one call in a Turn, and enters its place again, as the daemon does.
type callSession struct {
	w    *transport.Worker
	call transport.Call
	done chan error
	n    int
}

func (s *callSession) Await() bool { s.n++; return s.n == 1 }

func (s *callSession) RunTurn(t *transport.Turn) {
	s.call.Turn = t
	_, err := transport.Do(s.w, &s.call, nil)
	s.call.Place.Enter()
	s.done <- err
}

// If a call times out while its goroutine waits for its place, no other goroutine enters
// that place.
func TestTimeoutBeforePlace(t *testing.T) {
	w := transport.Local(newAnswer())
	defer w.Close()
	req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: id(plain)})
	if err != nil {
		t.Fatal(err)
	}
	var notes placeNotes
	p := blockedPlace{fakePlace{&notes, "p", new(atomic.Bool)}, new(atomic.Int32), new(atomic.Bool), make(chan struct{}, 1), make(chan struct{})}
	s := &callSession{w: w, call: transport.Call{Req: req, Place: p, Timeout: time.Millisecond}, done: make(chan error, 1)}
	late := make(chan struct{})
	w.OnState(func(s transport.State) {
		if s == transport.Late {
			close(late)
		}
	})
	var pool transport.TurnPool
	defer pool.Close()
	go pool.Serve(s)
	<-p.waits
	<-late
	runtime.Gosched()
	close(p.open)
	if err := <-s.done; err != transport.ErrLate {
		t.Errorf("got %v, want %v", err, transport.ErrLate)
	}
	if p.twice.Load() {
		t.Error("two goroutines have entered the place at a time")
	}
}
