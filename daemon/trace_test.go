package daemon

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
)

// The ring holds as many of the last events as it is large, and a dump shows
// and empties it.
func TestTraceRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		var tr trace
		tr.init(traceConns, zap.New(core))
		said := func(what, want string) {
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

		tr.dump()
		said("empty", head+"<empty>\n\n")
		tr.event(tracePDUs, "not asked for")
		tr.dump()
		said("masked", head+"<empty>\n\n")
		tr.event(traceConns, "one")
		time.Sleep(time.Second)
		tr.event(traceConns, "two %d", 2)
		tr.event(traceConns, "three")
		tr.dump()
		said("times", head+"starting at "+stamp+"\n"+blank+"one\n->"+later+" two 2\n"+blank+"three\n\n")
		tr.dump()
		said("emptied", head+"<empty>\n\n")

		now := time.Now().Format(time.ANSIC)
		for i := range traceBufs + 3 {
			tr.event(traceConns, "%d", i)
		}
		var want strings.Builder
		for i := 3; i < traceBufs+3; i++ {
			fmt.Fprintf(&want, blank+"%d\n", i)
		}
		tr.dump()
		said("full", head+"starting at "+now+"\n"+want.String()+"\n")

		tr.event(traceConns, "lost")
		tr.resize(1)
		tr.event(traceConns, "lost")
		tr.event(traceConns, "kept")
		tr.dumpOnDrop()
		said("resized", head+"starting at "+now+"\n"+blank+"kept\n\n")
		tr.resize(0)
		tr.event(traceConns, "lost")
		tr.dump()
		said("no ring", head+"<empty>\n\n")

		tr.mask.Store(traceConns | traceUnbuffered)
		tr.event(traceConns, "now")
		said("unbuffered", "->"+later+" now\n")
		tr.dumpOnDrop()
		said("dropped", "")
		tr.mask.Store(0)
		tr.dumpOnDrop()
		said("off", "")
	})
}

// What the log says of PDUs and of failures, in the words of C pmcd.
func TestTraceEvents(t *testing.T) {
	pm := []pdu.PMID{id(240, 1), id(240, 2)}
	one := pdu.NewPMID(29, 1, 2)
	event := func(f func(*trace)) string {
		core, logs := observer.New(zap.InfoLevel)
		var tr trace
		tr.init(traceConns|tracePDUs|traceUnbuffered, zap.New(core))
		f(&tr)
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
		b, err := pdu.Append(nil, 0, tt.m)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := event(func(tr *trace) { tr.pdu(true, 7, b) }), "Xmit: "+tt.want; got != want {
			t.Errorf("sent: got %q, want %q", got, want)
		}
		want, _, _ := strings.Cut("Recv: "+tt.want, "fd=7")
		if got := event(func(tr *trace) { tr.pdu(false, 7, b) }); got != want+"fd=7" {
			t.Errorf("received: got %q, want %q", got, want+"fd=7")
		}
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
		if got := event(func(tr *trace) { tr.failure(tt.sent, 7, req, tt.err) }); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.err, got, tt.want)
		}
	}
}

// Both ends of what a client and an agent say to each other are in the trace.
func TestTraceOfAFetch(t *testing.T) {
	r := newRig(t, func(c *Config) { c.TraceMask = traceConns | tracePDUs }, nil)
	r.settled()
	r.trace.resize(100)
	c := r.dial()
	c.send(&pdu.Profile{})
	c.fetch(id(240, 1))
	c.conn.Close()
	eventually(t, "the client has gone", func() bool { return r.clients.len() == 0 })
	c = r.dial()
	c.sendBytes(word(64<<10+4, 0x7004, 0))
	c.closed()
	eventually(t, "the client has gone", func() bool { return r.clients.len() == 0 })
	r.trace.dump()
	all := r.logs.All()
	got := regexp.MustCompile(`(?m)(^->.{9}|fd=\d+|addr=[^,]+)`).ReplaceAllStringFunc(all[len(all)-1].Message, func(s string) string {
		name, _, _ := strings.Cut(s, "=")
		if strings.HasPrefix(s, "->") {
			return ""
		}
		return name
	})
	for _, want := range []string{
		"New client: [0] addr, fd, seq=0\nXmit: ERROR PDU, fd, err=0: no error\nRecv: CREDS PDU, fd\nRecv: PROFILE PDU, fd\nRecv: HIGHRES_FETCH PDU, fd\n" +
			"Xmit: PROFILE PDU, fd\nXmit: FETCH PDU, fd, numpmid=1\nRecv: RESULT PDU, fd\nXmit: HIGHRES_RESULT PDU, fd, numpmid=1\nEnd client: [0] fd\n",
		"Recv: CREDS PDU, fd\nEnd client: [0] fd, err=-12444: " + pdu.ErrnoTooBig.Error() + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the trace is\n%s\nwithout\n%s", got, want)
		}
	}
}

// Nothing that is in a PDU stops the trace and the dumps of PDUs.
func FuzzTapped(f *testing.F) {
	for _, m := range []pdu.Message{&pdu.Error{}, &pdu.Fetch{PMIDs: []pdu.PMID{1}}, &pdu.PMNSNames{Names: []string{"a"}}, &pdu.Desc{}} {
		b, err := pdu.Append(nil, 0, m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(append(b, b[:13]...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		core, logs := observer.New(zap.InfoLevel)
		d := &Daemon{log: zap.New(core)}
		d.trace.init(tracePDUs|traceUnbuffered, d.log)
		d.debug.log = d.log
		d.debug.set("pdu")
		s := &session{d: d}
		s.tapped(true, b)
		s.tapped(false, b)
		// A header at least goes into each pair of lines.
		if n := logs.Len(); n > 4*(len(b)/pdu.HeaderLen) {
			t.Errorf("%d lines for %d bytes", n, len(b))
		}
	})
}
