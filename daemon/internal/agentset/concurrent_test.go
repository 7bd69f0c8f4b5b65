package agentset

import (
	"sync"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/transport"
)

// Several clients use an agent, and several goroutines raise events. Each method has a goroutine
// of its own here, so the race detector sees one that does not lock.
func TestStateConcurrently(t *testing.T) {
	var l lifecycle
	var stats latencyStats
	c := &Conn{Conn: &transport.Conn{Transport: new(fake)}}
	l.starting()
	l.connected(c)
	now := time.Now()
	var wg sync.WaitGroup
	for _, f := range []func(){
		l.starting, l.stopped, func() { l.connected(c) }, func() { l.startFailed("", nil, true) },
		func() { l.transportState(transport.Late) }, func() { l.lateSince() }, func() { l.statusCode() },
		func() { l.resetFailures() }, func() { l.failures() }, func() { l.report(new(Status)) },
		func() { l.disconnected(c, 0) }, func() { l.ended("", nil, true) },
		func() { stats.answered(now, now, now) }, func() { stats.typical() }, stats.requestFailed, stats.requestAbandoned,
		func() { stats.report(new(Status), now) },
	} {
		wg.Go(f)
	}
	wg.Wait()
	var st Status
	if stats.report(&st, now); st.Requests != 1 || st.Errors != 1 || st.Abandoned != 1 || l.conn.Load() != nil {
		t.Errorf("%+v at the end", st)
	}
}
