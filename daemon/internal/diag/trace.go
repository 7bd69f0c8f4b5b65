// Package diag has the diagnostics of pmcd besides plain log lines: the event trace (pmcd
// -T), the debug options (pmcd -D), a limit for lines that repeat, and the tables of agents
// and clients. It formats its arguments, and does not depend on the daemon.
//
// Programs of PCP's QA read these texts. So they are exactly those of C pmcd, unless a
// comment says otherwise.
package diag

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// Bits of the trace mask (pmcd -T, pmcd.control.trace*).
const (
	TraceConns      = 1 << 0 // connections of clients and agents
	TracePDUs       = 1 << 1
	TraceUnbuffered = 1 << 8 // log each event at once
)

// A Trace remembers the last events of the kinds that its mask names, for the
// log (pmcd(1), DIAGNOSTICS). Its methods may be called by several goroutines
// at a time.
type Trace struct {
	log  *slog.Logger
	mask atomic.Int32

	mu     sync.Mutex // guards the following, which any goroutine may add to
	events []event    // oldest first
	size   int        // how many events it holds
}

type event struct {
	at   time.Time
	text string
}

// traceSize is how many events a new Trace holds.
const traceSize = 20

// NewTrace returns a Trace that logs to log.
func NewTrace(mask int, log *slog.Logger) *Trace {
	t := &Trace{log: log, size: traceSize}
	t.SetMask(mask)
	return t
}

// Mask returns the kinds of events that are remembered.
func (t *Trace) Mask() int { return int(t.mask.Load()) }

// SetMask sets the kinds of events that are remembered.
func (t *Trace) SetMask(mask int) { t.mask.Store(int32(mask)) }

// On reports whether events of a kind are remembered.
func (t *Trace) On(kind int) bool { return t.Mask()&kind != 0 }

// Event adds an event to the trace, or logs it if the trace is unbuffered.
func (t *Trace) Event(kind int, format string, args ...any) {
	if !t.On(kind) {
		return
	}
	e := event{time.Now(), logtext.Printable(fmt.Sprintf(format, args...))}
	if t.On(TraceUnbuffered) {
		t.log.Info(eventLines([]event{e}, ""), logtext.Event("event_trace"))
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.size == 0 {
		return
	}
	if len(t.events) >= t.size {
		t.events = append(t.events[:0], t.events[len(t.events)-t.size+1:]...)
	}
	t.events = append(t.events, e)
}

// Resize forgets all events and sets how many are remembered.
func (t *Trace) Resize(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events, t.size = nil, n
}

// Size returns how many events are remembered.
func (t *Trace) Size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.size
}

// Dump logs the events and forgets them.
func (t *Trace) Dump() {
	t.mu.Lock()
	events := t.events
	t.events = nil
	t.mu.Unlock()
	text := "\n->PMCD event trace: "
	if len(events) == 0 {
		t.log.Info(text+"<empty>\n", logtext.Event("event_trace"))
		return
	}
	first := events[0].at
	text += "starting at " + first.Format(time.ANSIC) + "\n" + eventLines(events, first.Format(time.TimeOnly)) + "\n"
	t.log.Info(text, logtext.Event("event_trace"))
}

// DumpOnDrop is Dump after the connection to an agent was closed. It does
// nothing if no events are remembered.
func (t *Trace) DumpOnDrop() {
	if t.On(TraceConns|TracePDUs) && !t.On(TraceUnbuffered) {
		t.Dump()
	}
}

// eventLines returns one line for each event. The time is left out if it is that of the line
// before. last is the time before the first line.
func eventLines(events []event, last string) string {
	var b strings.Builder
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

// PDU is the event that a PDU was received, or is about to be sent.
//
// C pmcd differs: it has the type of the request for the reply to a fetch, and
// an address of its own memory for a PDU received.
func (t *Trace) PDU(sent bool, fd int, b []byte) {
	if !t.On(TracePDUs) {
		return
	}
	_, typ, _ := pdu.Header(b)
	if sent {
		t.Event(TracePDUs, "Xmit: %v PDU, fd=%d%s", typ, fd, summary(b))
	} else {
		t.Event(TracePDUs, "Recv: %v PDU, fd=%d", typ, fd)
	}
}

// summary returns the text of an event about a PDU, without the type.
func summary(b []byte) string {
	_, m, err := pdu.Parse(b)
	if err != nil {
		return ""
	}
	num := func(n int) string { return fmt.Sprintf(", numpmid=%d", n) }
	switch m := m.(type) {
	case *pdu.Error:
		return fmt.Sprintf(", err=%d: %v", int32(m.Code), m.Code)
	case *pdu.TextReq:
		return fmt.Sprintf(", id=%#x", m.Ident)
	case *pdu.DescReq:
		return fmt.Sprintf(", pmid=%v", m.PMID)
	case *pdu.Desc:
		return fmt.Sprintf(", pmid=%v", m.PMID)
	case *pdu.InstanceReq:
		return fmt.Sprintf(", indom=%v", m.InDom)
	case *pdu.Instance:
		return fmt.Sprintf(", indom=%v", m.InDom)
	case *pdu.PMNSNames:
		return num(len(m.Names))
	case *pdu.PMNSIDs:
		return num(len(m.PMIDs))
	case *pdu.Fetch:
		return num(len(m.PMIDs))
	case *pdu.Result:
		return num(len(m.Sets))
	case *pdu.HighResResult:
		return num(len(m.Sets))
	case *pdu.Descs:
		return num(len(m.Descs))
	case *pdu.Creds:
		return fmt.Sprintf(", numcreds=%d", len(m.Creds))
	}
	return ""
}

// Failure is the event that a request was not sent to an agent, or not answered, because of
// err. code is the error code for the client.
func (t *Trace) Failure(sent bool, fd int, req []byte, err error, code pdu.Errno) {
	if !t.On(TraceConns) {
		return
	}
	_, typ, _ := pdu.Header(req)
	want := transport.ReplyType(typ)
	switch {
	case errors.Is(err, transport.ErrNotReady):
	case sent:
		t.Event(TraceConns, "Send %v PDU failed: fd=%d, err=%d: %v", typ, fd, int32(code), err)
	case errors.Is(err, transport.ErrLate):
		t.Event(TraceConns, "Recv timeout: expecting %v PDU, fd=%d", want, fd)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		t.Event(TraceConns, "Premature EOF: expecting %v PDU, fd=%d", want, fd)
	default:
		t.Event(TraceConns, "Recv error: expecting %v PDU, fd=%d, err=%d: %v", want, fd, int32(code), err)
	}
}
