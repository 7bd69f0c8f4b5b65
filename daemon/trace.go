package daemon

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
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
		t.log.Info(lines([]traced{e}, ""))
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
		t.log.Info(text + "<empty>\n")
		return
	}
	first := events[0].at
	t.log.Info(text + "starting at " + first.Format(time.ANSIC) + "\n" + lines(events, first.Format(time.TimeOnly)) + "\n")
}

// dumpOnDrop is dump for an agent that was dropped, if anything is remembered.
func (t *trace) dumpOnDrop() {
	if t.on(traceConns|tracePDUs) && !t.on(traceUnbuffered) {
		t.dump()
	}
}

// lines has one line an event; a time like that of the line before, last for
// the first, is left out.
func lines(events []traced, last string) string {
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

// pdu is the event that a PDU was received, or is about to be sent.
//
// C pmcd differs: it has the type of the request for the reply to a fetch, and
// an address of its own memory for a PDU received.
func (t *trace) pdu(sent bool, fd int, b []byte) {
	if !t.on(tracePDUs) {
		return
	}
	_, typ, _ := pdu.Header(b)
	if sent {
		t.event(tracePDUs, "Xmit: %v PDU, fd=%d%s", typ, fd, about(b))
	} else {
		t.event(tracePDUs, "Recv: %v PDU, fd=%d", typ, fd)
	}
}

// about is what an event says of a PDU besides its type.
func about(b []byte) string {
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

// failure is the event that a request was not sent, or not answered.
func (t *trace) failure(sent bool, fd int, req []byte, err error) {
	if !t.on(traceConns) {
		return
	}
	_, typ, _ := pdu.Header(req)
	want := transport.ReplyType(typ)
	switch code := errnoOf(err); {
	case err == transport.ErrNotReady:
	case sent:
		t.event(traceConns, "Send %v PDU failed: fd=%d, err=%d: %v", typ, fd, int32(code), err)
	case err == transport.ErrLate:
		t.event(traceConns, "Recv timeout: expecting %v PDU, fd=%d", want, fd)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		t.event(traceConns, "Premature EOF: expecting %v PDU, fd=%d", want, fd)
	default:
		t.event(traceConns, "Recv error: expecting %v PDU, fd=%d, err=%d: %v", want, fd, int32(code), err)
	}
}
