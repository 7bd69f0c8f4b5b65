package agentset

import (
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/internal/transport"
)

// A lifecycleEvent raises an event of a lifecycle.
type lifecycleEvent struct {
	name  string
	raise func(l *lifecycle, c *Conn)
}

var lifecycleEvents = []lifecycleEvent{
	{"starting", func(l *lifecycle, _ *Conn) { l.starting() }},
	{"connected", func(l *lifecycle, c *Conn) { l.connected(c) }},
	{"startFailed", func(l *lifecycle, _ *Conn) { l.startFailed("no start", nil, true) }},
	{"late", func(l *lifecycle, c *Conn) { raiseTransportState(l, c, transport.Late) }},
	{"notReady", func(l *lifecycle, c *Conn) { raiseTransportState(l, c, transport.NotReady) }},
	{"ready", func(l *lifecycle, c *Conn) { raiseTransportState(l, c, transport.Ready) }},
	{"disconnected", func(l *lifecycle, c *Conn) { l.disconnected(c, statusProtocol) }},
	{"ended", func(l *lifecycle, _ *Conn) { l.ended("no process", nil, true) }},
	{"stopped", func(l *lifecycle, _ *Conn) { l.stopped() }},
}

func raiseTransportState(l *lifecycle, c *Conn, s transport.State) {
	c.Transport.(*fake).state = s
	l.transportState(s)
}

// raise raises events by name.
func raise(l *lifecycle, c *Conn, names ...string) {
	for _, name := range names {
		i := slices.IndexFunc(lifecycleEvents, func(e lifecycleEvent) bool { return e.name == name })
		lifecycleEvents[i].raise(l, c)
	}
}

// Each event leads from each state to the one that the diagram shows, and changes
// nothing where the diagram has no arrow.
func TestLifecycleEvents(t *testing.T) {
	up := map[string]state{"late": stateLate, "notReady": stateNotReady, "ready": stateReady, "disconnected": stateEnding}
	for _, tt := range []struct {
		from   state
		path   []string // of events, to get there
		arrows map[string]state
		status int32
		shown  StateName
	}{
		{stateInitial, nil, map[string]state{"starting": stateStarting, "stopped": stateStopped}, statusStarting, Starting},
		{stateStarting, []string{"starting"},
			map[string]state{"connected": stateReady, "startFailed": stateDown, "stopped": stateStopped}, statusStarting, Starting},
		{stateReady, []string{"starting", "connected"}, up, 0, Ready},
		{stateLate, []string{"starting", "connected", "late"}, up, 0, Late},
		{stateNotReady, []string{"starting", "connected", "notReady"}, up, statusStarting, NotReady},
		{stateEnding, []string{"starting", "connected", "disconnected"},
			map[string]state{"ended": stateDown, "stopped": stateStopped}, statusProtocol, Down},
		{stateDown, []string{"starting", "startFailed"},
			map[string]state{"starting": stateRestarting, "stopped": stateStopped}, statusNotStarted, Down},
		{stateRestarting, []string{"starting", "connected", "disconnected", "ended", "starting"},
			map[string]state{"connected": stateReady, "startFailed": stateDown, "stopped": stateStopped}, statusProtocol, Starting},
		{stateStopped, []string{"stopped"}, nil, statusNotStarted, Down},
	} {
		for _, e := range lifecycleEvents {
			l, c := new(lifecycle), &Conn{Conn: &transport.Conn{Transport: &fake{}}}
			raise(l, c, tt.path...)
			var st Status
			l.report(&st)
			if got := l.statusCode(); l.state != tt.from || got != tt.status || st.State != tt.shown {
				t.Fatalf("%v: is %v, pmcd.agent.status %d, shown as %s; want %d and %s", tt.from, l.state, got, st.State, tt.status, tt.shown)
			}
			raise(l, c, e.name)
			want, ok := tt.arrows[e.name]
			if !ok {
				want = tt.from
			}
			if l.state != want {
				t.Errorf("%s in state %v leads to %v, want %v", e.name, tt.from, l.state, want)
			}
			var after Status
			if l.report(&after); !ok && (!reflect.DeepEqual(after, st) || l.statusCode() != tt.status) {
				t.Errorf("%s in state %v: pmcd.agent.status %d, %+v; want %d, %+v", e.name, tt.from, l.statusCode(), after, tt.status, st)
			}
			if has := l.conn.Load() != nil; has != want.connected() {
				t.Errorf("%s in state %v: a connection: %v", e.name, tt.from, has)
			}
		}
	}
}

// What a transport says while the agent is started counts when it is connected.
// If it has said nothing, its state counts, as it says so later.
func TestLifecycleStateOfTransport(t *testing.T) {
	for _, tt := range []struct {
		name  string
		said  []string
		state transport.State
		want  state
	}{
		{"nothing", nil, transport.Ready, stateReady},
		{"nothing yet", nil, transport.NotReady, stateNotReady},
		{"not ready", []string{"notReady"}, transport.NotReady, stateNotReady},
		{"ready, and is soon", []string{"notReady", "ready"}, transport.NotReady, stateReady},
	} {
		for _, path := range [][]string{{"starting"}, {"starting", "startFailed", "starting"}} {
			l, c := new(lifecycle), &Conn{Conn: &transport.Conn{Transport: &fake{state: tt.state}}}
			raise(l, c, path...)
			raise(l, c, tt.said...)
			c.Transport.(*fake).state = tt.state
			raise(l, c, "connected")
			if l.state != tt.want {
				t.Errorf("%s: %v, want %v", tt.name, l.state, tt.want)
			}
			if was := l.transportState(transport.Late); connectedState(was) != tt.want {
				t.Errorf("%s: then was %v", tt.name, was)
			}
		}
	}
}

// An agent that has told a client that it is not ready has that status at once,
// although its transport raises the event a moment later.
func TestLifecycleNotReadyAtOnce(t *testing.T) {
	f := new(fake)
	l, c := new(lifecycle), &Conn{Conn: &transport.Conn{Transport: f}}
	raise(l, c, "starting", "connected")
	f.state = transport.NotReady
	if got := l.statusCode(); got != statusStarting {
		t.Errorf("pmcd.agent.status %d, want %d", got, statusStarting)
	}
}

// The end of a connection that is not the agent's any more changes nothing.
func TestLifecycleOldConnection(t *testing.T) {
	l, old := new(lifecycle), &Conn{Conn: &transport.Conn{Transport: &fake{}}}
	raise(l, old, "starting", "connected", "disconnected", "ended", "starting")
	now := &Conn{Conn: &transport.Conn{Transport: &fake{}}}
	raise(l, now, "connected")
	l.fenced.Store(true)
	raise(l, old, "disconnected")
	if l.state != stateReady || l.conn.Load() != now || !l.fenced.Load() {
		t.Errorf("state %v", l.state)
	}
	raise(l, now, "disconnected")
	if l.state != stateEnding || l.conn.Load() != nil || l.fenced.Load() {
		t.Errorf("state %v after the end of the new one", l.state)
	}
}

// The history has the times of all that has happened.
func TestLifecycleHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sec = time.Second
		began := time.Now()
		l, c := new(lifecycle), &Conn{Conn: &transport.Conn{Transport: &fake{}}}
		check := func(when string, since, next, errorAt time.Duration, lastError string, restarts, failures int) {
			t.Helper()
			var st Status
			l.report(&st)
			at := func(d time.Duration) time.Time {
				if d < 0 {
					return time.Time{}
				}
				return began.Add(d)
			}
			if !st.Since.Equal(at(since)) || !st.NextStart.Equal(at(next)) || !st.ErrorAt.Equal(at(errorAt)) ||
				st.LastError != lastError || st.Restarts != restarts || st.Failures != failures {
				t.Errorf("%s: %+v", when, st)
			}
			time.Sleep(sec)
		}
		check("before", -1, -1, -1, "", 0, 0)
		raise(l, c, "starting")
		check("first start", 1*sec, -1, -1, "", 0, 0)
		if n, delay := l.startFailed("one", nil, true); n != 1 || delay != sec {
			t.Errorf("failure %d, next in %v", n, delay)
		}
		check("failed", 2*sec, 3*sec, 2*sec, "one", 0, 1)
		raise(l, c, "starting")
		check("second start", 3*sec, -1, 2*sec, "one", 0, 1)
		raise(l, c, "connected")
		check("connected", 4*sec, -1, 2*sec, "one", 0, 1)
		raise(l, c, "late")
		if since := l.lateSince(); since.Sub(began) != 5*sec {
			t.Errorf("late since %v", since.Sub(began))
		}
		check("late", 5*sec, -1, 2*sec, "one", 0, 1)
		raise(l, c, "late")
		check("late still", 5*sec, -1, 2*sec, "one", 0, 1)
		raise(l, c, "disconnected")
		if since := l.lateSince(); !since.IsZero() {
			t.Errorf("late since %v without a connection", since.Sub(began))
		}
		check("disconnected", 7*sec, -1, 2*sec, "one", 0, 1)
		if n, delay := l.ended("two", nil, true); n != 2 || delay != 2*sec {
			t.Errorf("failure %d, next in %v", n, delay)
		}
		check("ended", 7*sec, 10*sec, 8*sec, "two", 0, 2)
		raise(l, c, "starting", "connected")
		check("connected again", 9*sec, -1, 8*sec, "two", 1, 2)
		if n := l.resetFailures(); n != 2 {
			t.Errorf("%d failures", n)
		}
		raise(l, c, "disconnected")
		if n, delay := l.ended("three", nil, false); n != 1 || delay != 0 {
			t.Errorf("failure %d, next in %v", n, delay)
		}
		check("not started again", 10*sec, -1, 10*sec, "three", 1, 1)
	})
}
