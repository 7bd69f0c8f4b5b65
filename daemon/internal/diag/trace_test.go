package diag

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/logtest"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// The ring holds as many of the last events as it is large, and a dump shows
// and empties it.
func TestTraceRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, logs := logtest.NewLog()
		tr := NewTrace(TraceConns, log)
		logged := func(what, want string) {
			t.Helper()
			var got string
			for _, e := range logs.TakeAll() {
				got += e.Message + "\n"
			}
			if got != want {
				t.Errorf("%s: got %q, want %q", what, got, want)
			}
		}
		const head = "\n->PMCD event trace: "
		start := time.Now()
		stamp := start.Format(time.ANSIC)
		later := start.Add(time.Second).Format(time.TimeOnly)
		const blank = "->         "

		tr.Dump()
		logged("empty", head+"<empty>\n\n")
		tr.Event(TracePDUs, "not asked for")
		tr.Dump()
		logged("masked", head+"<empty>\n\n")
		tr.Event(TraceConns, "one")
		time.Sleep(time.Second)
		tr.Event(TraceConns, "two %d", 2)
		tr.Event(TraceConns, "three")
		tr.Dump()
		logged("times", head+"starting at "+stamp+"\n"+blank+"one\n->"+later+" two 2\n"+blank+"three\n\n")
		tr.Dump()
		logged("emptied", head+"<empty>\n\n")

		now := time.Now().Format(time.ANSIC)
		for i := range traceSize + 3 {
			tr.Event(TraceConns, "%d", i)
		}
		var want strings.Builder
		for i := 3; i < traceSize+3; i++ {
			fmt.Fprintf(&want, blank+"%d\n", i)
		}
		tr.Dump()
		logged("full", head+"starting at "+now+"\n"+want.String()+"\n")

		tr.Event(TraceConns, "lost")
		tr.Resize(1)
		tr.Event(TraceConns, "lost")
		tr.Event(TraceConns, "kept")
		tr.DumpOnDrop()
		logged("resized", head+"starting at "+now+"\n"+blank+"kept\n\n")
		tr.Resize(0)
		tr.Event(TraceConns, "lost")
		tr.Dump()
		logged("no ring", head+"<empty>\n\n")

		tr.SetMask(TraceConns | TraceUnbuffered)
		tr.Event(TraceConns, "now")
		logged("unbuffered", "->"+later+" now\n")
		tr.DumpOnDrop()
		logged("dropped", "")
		tr.SetMask(0)
		tr.DumpOnDrop()
		logged("off", "")
	})
}

// What the log says of PDUs and of failures, in the words of C pmcd.
func TestTraceEvents(t *testing.T) {
	pm := []pdu.PMID{pdu.NewPMID(240, 0, 1), pdu.NewPMID(240, 0, 2)}
	one := pdu.NewPMID(29, 1, 2)
	event := func(f func(*Trace)) string {
		log, logs := logtest.NewLog()
		f(NewTrace(TraceConns|TracePDUs|TraceUnbuffered, log))
		if logs.Len() == 0 {
			return ""
		}
		return regexp.MustCompile(`^->\d\d:\d\d:\d\d `).ReplaceAllString(logs.All()[0].Message, "")
	}
	for _, tt := range []struct {
		m    pdu.Message
		want string
	}{
		{&pdu.Error{}, "ERROR PDU, fd=7, err=0: no error"},
		{&pdu.Error{Code: pdu.ErrnoPMID}, "ERROR PDU, fd=7, err=-12358: " + pdu.ErrnoPMID.Error()},
		{&pdu.Profile{}, "PROFILE PDU, fd=7"},
		{&pdu.Creds{Creds: make([]pdu.Cred, 1)}, "CREDS PDU, fd=7, numcreds=1"},
		{&pdu.Fetch{PMIDs: pm}, "FETCH PDU, fd=7, numpmid=2"},
		{&pdu.Result{Sets: make([]pdu.ValueSet, 3)}, "RESULT PDU, fd=7, numpmid=3"},
		{&pdu.HighResResult{Sets: make([]pdu.ValueSet, 1)}, "HIGHRES_RESULT PDU, fd=7, numpmid=1"},
		{&pdu.DescReq{PMID: one}, "DESC_REQ PDU, fd=7, pmid=29.1.2"},
		{&pdu.Desc{PMID: one}, "DESC PDU, fd=7, pmid=29.1.2"},
		{&pdu.Descs{Descs: make([]pdu.Desc, 2)}, "DESCS PDU, fd=7, numpmid=2"},
		{&pdu.InstanceReq{InDom: pdu.NewInDom(29, 3)}, "INSTANCE_REQ PDU, fd=7, indom=29.3"},
		{&pdu.Instance{InDom: pdu.NewInDom(29, 3)}, "INSTANCE PDU, fd=7, indom=29.3"},
		{&pdu.TextReq{Ident: uint32(one)}, "TEXT_REQ PDU, fd=7, id=0x7400402"},
		{&pdu.PMNSNames{Names: []string{"a"}}, "PMNS_NAMES PDU, fd=7, numpmid=1"},
		{&pdu.PMNSIDs{PMIDs: pm}, "PMNS_IDS PDU, fd=7, numpmid=2"},
		{&pdu.LabelReq{}, "LABEL_REQ PDU, fd=7"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			b, err := pdu.Append(nil, 0, tt.m)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := event(func(tr *Trace) { tr.PDU(true, 7, b) }), "Xmit: "+tt.want; got != want {
				t.Errorf("sent: got %q, want %q", got, want)
			}
			want, _, _ := strings.Cut("Recv: "+tt.want, "fd=7")
			if got := event(func(tr *Trace) { tr.PDU(false, 7, b) }); got != want+"fd=7" {
				t.Errorf("received: got %q, want %q", got, want+"fd=7")
			}
		})
	}
	req, _ := pdu.Append(nil, 0, &pdu.DescReq{PMID: one})
	for _, tt := range []struct {
		sent bool
		err  error
		want string
	}{
		{true, pdu.ErrnoEPIPE, "Send DESC_REQ PDU failed: fd=7, err=-32: broken pipe"},
		{false, transport.ErrLate, "Recv timeout: expecting DESC PDU, fd=7"},
		{false, fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), "Premature EOF: expecting DESC PDU, fd=7"},
		{false, pdu.ErrnoIPC, "Recv error: expecting DESC PDU, fd=7, err=-12366: " + pdu.ErrnoIPC.Error()},
		{false, transport.ErrNotReady, ""},
	} {
		if got := event(func(tr *Trace) { tr.Failure(tt.sent, 7, req, tt.err, pdu.ErrnoOf(tt.err)) }); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.err, got, tt.want)
		}
	}
}
