package openmetrics

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/responder"
	"github.com/gopcp/pmcd/pdu"
)

// Series that share an instance, or are left out by a filter, are not kept without limit.
func TestForgetsSeries(t *testing.T) {
	h := newHost(t)
	h.source("a", "a 1\na{x=\"1\"} 2\nb{x=\"1\"} 1\n", "FILTER: EXCLUDE METRIC b")
	a := h.start(Options{})
	s := a.sources[0]
	h.source("a", "a 1\na{x=\"2\"} 2\nb{x=\"2\"} 1\n")
	values(t, a, "a")
	want := 0
	for key := range s.series {
		want += len(key)
	}
	if len(s.series) != 5 || s.keys != want {
		t.Errorf("%d series with keys of %d bytes, want 5 of %d", len(s.series), s.keys, want)
	}
	s.keys += maxHeld
	values(t, a, "a")
	if len(s.series) != 0 || s.keys != 0 {
		t.Errorf("%d series with keys of %d bytes are kept", len(s.series), s.keys)
	}
	if got := values(t, a, "a"); got != "a.a 2" || len(s.series) != 3 {
		t.Errorf("afterwards %s, %d series", got, len(s.series))
	}
}

// The labels of a metric whose instances have more names of labels than a set can have do not take
// long, and a client that has gone is not waited for.
func TestTooManyLabels(t *testing.T) {
	h := newHost(t)
	var page strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&page, "m{l%d=\"\"} 1\n", i)
	}
	h.source("a", page.String())
	a := h.start(Options{})
	s := a.sources[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	if labels, err := s.itemLabels(t.Context(), s.metrics["m"]); err != nil || len(labels) != maxSetLabels+1 {
		t.Errorf("%d labels, %v, want one more than %d", len(labels), err, maxSetLabels)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if labels, err := s.itemLabels(ended, s.metrics["m"]); err == nil {
		t.Errorf("%d labels for a request that has ended", len(labels))
	}
}

// Wrong units are in the log once, and only if the page has been read. That line has only the begin
// of what the page says.
func TestWrongUnits(t *testing.T) {
	h := newHost(t)
	a := h.start(Options{})
	name := "m" + strings.Repeat("m", 900)
	page := fmt.Sprintf("# PCP5 %s 1.1.1 double PM_INDOM_NULL instant %s\n%[1]s 1\n", name, strings.Repeat("x", 50_000))
	h.handle("a", func(w http.ResponseWriter, _ *http.Request) { // it is cut
		w.Header().Set("Content-Length", "1000000")
		fmt.Fprint(w, page)
	})
	for range 3 {
		again(a)
		values(t, a, "a")
	}
	if got := h.log.String(); strings.Contains(got, "units") {
		t.Errorf("pages that were cut:\n%.1000s", got)
	}
	h.source("a", page)
	for range 3 {
		again(a)
		values(t, a, "a")
	}
	var lines []string
	for line := range strings.Lines(h.log.String()) {
		if strings.Contains(line, "units") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 || len(lines[0]) > 2000 {
		t.Errorf("%d lines about units, want a short one:\n%.3000s", len(lines), lines)
	}
}

// No client gets control characters, or bytes that are not UTF-8, of a page or a server.
func TestControls(t *testing.T) {
	const controls = "\x00\x1b]0;x\a\u009b\x9b\x7f\xff"
	h := newHost(t)
	h.source("page", "# HELP m help"+controls+"\nm{l=\""+controls+"\",o=\""+controls+"\"} 1\nbad"+controls+" 1\n"+
		"# PCP5 s 1.1.1 string PM_INDOM_NULL instant none"+controls+"\ns "+controls+"\n", "FILTER: OPTIONAL LABEL o")
	for name, reply := range map[string]string{
		"status":   "HTTP/1.1 500 bad\rstatus" + controls + "\r\n\r\n",
		"location": "HTTP/1.1 302 Found\r\nLocation: http://a" + controls + ".example/\r\n\r\n",
		"host":     "HTTP/1.1 302 Found\r\nLocation: http://a%1b%9b.example/\r\n\r\n",
		"encoding": "HTTP/1.1 200 OK\r\nContent-Encoding: br" + controls + ", br\r\n\r\n",
		"length":   "HTTP/1.1 200 OK\r\nContent-Length: \u009b" + controls + "\r\n\r\n",
		"nothing":  controls + "\r\n",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				bufio.NewReader(c).ReadString('\n')
				fmt.Fprint(c, reply)
				c.Close()
			}
		}()
		h.file(name+".url", "http://"+l.Addr().String(), 0o644)
	}
	a := h.start(Options{})
	r := responder.Responder{Agent: a}
	check := func(what, text string) {
		t.Helper()
		if strings.ContainsFunc(text, unicode.IsControl) || !utf8.ValidString(text) || text == "" {
			t.Errorf("%s: %q", what, text)
		}
	}
	ask := func(req, reply pdu.Message) {
		t.Helper()
		b, err := pdu.Append(nil, 0, req)
		if err == nil {
			b, err = r.Reply(t.Context(), responder.Request{PDU: b}, nil)
		}
		if err == nil {
			_, err = pdu.ParseInto(b, reply)
		}
		if err != nil {
			t.Fatalf("%T: %v", req, err)
		}
	}
	statuses, cluster := pdu.NewPMID(Domain, 0, 5), 0
	for _, s := range a.sources {
		if s.name == "page" {
			cluster = s.cluster
		} else if got := status(t, a, s.name); got == "success" || got == "unknown" {
			t.Errorf("%s: %s", s.name, got)
		}
	}
	id := func(name string) pdu.PMID {
		id, err := a.PMID(t.Context(), agents.Origin{}, "openmetrics.page."+name)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	var result pdu.Result
	ask(&pdu.Fetch{PMIDs: []pdu.PMID{statuses, id("s")}}, &result)
	for _, set := range result.Sets {
		if set.Err < 0 {
			t.Error(set.PMID, set.Err)
		}
		for _, v := range set.Values {
			check(fmt.Sprint(set.PMID, " ", v.Inst), strings.TrimRight(string(v.Block), "\x00"))
		}
	}
	indom := pdu.NewInDom(Domain, instSerial(cluster, id("m").Item()))
	var insts pdu.Instance
	ask(&pdu.InstanceReq{InDom: indom, Inst: pdu.NoInst}, &insts)
	if len(insts.Insts) != 1 {
		t.Errorf("instances %q", insts.Insts)
	}
	for _, inst := range insts.Insts {
		check("name of an instance", inst.Name)
	}
	var text pdu.Text
	ask(&pdu.TextReq{Ident: uint32(id("m")), Kind: pdu.TextPMID | pdu.TextHelp}, &text)
	check("help", text.Text)
	for kind, ident := range map[pdu.LabelKind]uint32{pdu.LabelItem: uint32(id("m")), pdu.LabelInstances: uint32(indom), pdu.LabelCluster: uint32(pdu.NewPMID(Domain, cluster, 0))} {
		var labels pdu.Labels
		ask(&pdu.LabelReq{Kind: kind, Ident: ident}, &labels)
		if len(labels.Sets) != 1 {
			t.Errorf("%v: %d sets", kind, len(labels.Sets))
		}
		for _, set := range labels.Sets {
			check(fmt.Sprint("labels ", kind), string(set.JSON))
		}
	}
}
