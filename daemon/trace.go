package daemon

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Bits of the trace mask (pmcd -T, pmcd.control.trace*).
const (
	traceConns      = 1 << 0
	tracePDUs       = 1 << 1
	traceUnbuffered = 1 << 8
)

// trace remembers the last events of the kinds that its mask names, for the
// log (pmcd(1), DIAGNOSTICS).
type trace struct {
	log  *zap.Logger
	mask atomic.Int32

	mu   sync.Mutex // guards the following
	ring []traced   // oldest first
	size int
}

type traced struct {
	at   time.Time
	text string
}

// traceBufs is the size of the ring at start.
const traceBufs = 20

func (t *trace) init(mask int, log *zap.Logger) {
	t.log, t.size = log, traceBufs
	t.mask.Store(int32(mask))
}

// on reports whether events of a kind are remembered.
func (t *trace) on(kind int) bool { return int(t.mask.Load())&kind != 0 }

// event remembers an event, or logs it if the trace is unbuffered.
func (t *trace) event(kind int, format string, args ...any) {
	if !t.on(kind) {
		return
	}
	e := traced{time.Now(), fmt.Sprintf(format, args...)}
	if t.on(traceUnbuffered) {
		t.log.Info(lines([]traced{e}))
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.size == 0 {
		return
	}
	if len(t.ring) >= t.size {
		t.ring = append(t.ring[:0], t.ring[len(t.ring)-t.size+1:]...)
	}
	t.ring = append(t.ring, e)
}

// resize empties the ring and sets how many events it holds.
func (t *trace) resize(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ring, t.size = nil, n
}

func (t *trace) bufs() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.size
}

// dump logs the events in the ring and empties it.
func (t *trace) dump() {
	t.mu.Lock()
	events := t.ring
	t.ring = nil
	t.mu.Unlock()
	text := "\n->PMCD event trace: "
	if len(events) == 0 {
		t.log.Info(text + "<empty>")
		return
	}
	t.log.Info(text + "starting at " + events[0].at.Format(time.ANSIC) + "\n" + lines(events))
}

// dumpOnDrop is dump for an agent that was dropped, if anything is traced.
func (t *trace) dumpOnDrop() {
	if t.mask.Load()&(traceConns|tracePDUs) != 0 {
		t.dump()
	}
}

// lines has one line an event; a time like the line's before is left out.
func lines(events []traced) string {
	var b strings.Builder
	last := ""
	for i, e := range events {
		if i > 0 {
			b.WriteByte('\n')
		}
		at := e.at.Format(time.TimeOnly)
		if at == last {
			at = strings.Repeat(" ", len(at))
		} else {
			last = at
		}
		fmt.Fprintf(&b, "->%s %s", at, e.text)
	}
	return b.String()
}
