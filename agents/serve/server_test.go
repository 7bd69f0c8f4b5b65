package serve_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/internal/relay"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// oneMetricAgent is an Agent with one metric, which notices clients that end.
type oneMetricAgent struct{}

var metricID = pdu.NewPMID(400, 0, 1)

func (oneMetricAgent) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	if id != metricID {
		return pdu.Desc{}, pdu.ErrnoPMID
	}
	return pdu.Desc{PMID: id, InDom: pdu.NoInDom}, nil
}

func (oneMetricAgent) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	for _, id := range r.PMIDs {
		w.Fail(id, pdu.ErrnoPMID)
	}
	return nil
}

// recordingAgent is a oneMetricAgent that records what it is notified of, and the profiles
// of fetches.
type recordingAgent struct {
	oneMetricAgent
	events   []string
	profiles map[*pdu.Profile]bool
	last     agents.Origin
}

func (a *recordingAgent) SetAttr(client int32, attr pdu.Attr) {
	a.events = append(a.events, fmt.Sprintf("%d is %s", client, attr.Value))
}

func (a *recordingAgent) EndContext(client int32) {
	a.events = append(a.events, fmt.Sprintf("%d ends", client))
}

func (a *recordingAgent) Fetch(ctx context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	if a.profiles == nil {
		a.profiles = make(map[*pdu.Profile]bool)
	}
	a.profiles[r.Profile], a.last = true, r.Origin
	return a.oneMetricAgent.Fetch(ctx, r, w)
}

type panickingAgent struct{ oneMetricAgent }

func (panickingAgent) Desc(context.Context, agents.Origin, pdu.PMID) (pdu.Desc, error) { panic("ouch") }

// encode returns PDUs in wire form.
func encode(tb testing.TB, ms ...pdu.Message) (b []byte) {
	tb.Helper()
	for _, m := range ms {
		var err error
		if b, err = pdu.Append(b, 0, m); err != nil {
			tb.Fatal(err)
		}
	}
	return b
}

func credsPDU() pdu.Message { return &pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(0)}} }

// rawPDU returns a PDU with any type and body.
func rawPDU(t pdu.Type, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(pdu.HeaderLen+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(t))
	return append(binary.BigEndian.AppendUint32(b, 9), body...)
}

// scriptedConn is a stream from a pmcd that sends all of in and reads all replies.
type scriptedConn struct {
	in  io.Reader
	out bytes.Buffer
}

func (s *scriptedConn) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s *scriptedConn) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s *scriptedConn) Close() error                { return nil }

// serveScript serves a with the CREDS of a pmcd and then input. It returns the
// replies after the CREDS of the agent.
func serveScript(tb testing.TB, a agents.Agent, input []byte) (replies [][]byte, log string, err error) {
	tb.Helper()
	var text bytes.Buffer
	conn := &scriptedConn{in: bytes.NewReader(append(encode(tb, credsPDU()), input...))}
	s := serve.Server{Agent: a, Log: slog.New(serve.NewHandler(&text, "pmda", slog.LevelInfo))}
	err = s.Serve(tb.Context(), conn)
	for r := pdu.NewReader(&conn.out, 0); ; {
		b, rerr := r.Next()
		if rerr == io.EOF {
			break
		}
		if rerr != nil {
			tb.Fatalf("replies: %v", rerr)
		}
		replies = append(replies, bytes.Clone(b))
	}
	if len(replies) == 0 {
		tb.Fatal("no CREDS")
	}
	return replies[1:], text.String(), err
}

// A PDU that is no request gets no reply, also if it is bad. A bad request gets
// PM_ERR_IPC. The next request is answered in all cases (PMDA(3); pmdaMain(3)).
func TestServerIgnoresBadPDUs(t *testing.T) {
	tests := []struct {
		name  string
		input []byte
		code  pdu.Errno // of the ERROR PDU that comes first; 0 means none
		log   string    // a part of the log; "" means that there is none
	}{
		{"end of a client", encode(t, &pdu.Error{Code: pdu.ErrnoNotConn}), 0, ""},
		{"another error", encode(t, &pdu.Error{Code: pdu.ErrnoTimeout}), 0, "unexpected ERROR PDU from pmcd"},
		{"bad error", rawPDU(pdu.TypeError, "abc"), 0, "bad ERROR PDU ignored"},
		{"profile", encode(t, new(pdu.Profile)), 0, ""},
		{"bad profile", rawPDU(pdu.TypeProfile, "abcd"), 0, "bad profile ignored"},
		{"attribute", encode(t, &pdu.Attr{Code: pdu.AttrUserID, Value: []byte("0\x00")}), 0, ""},
		{"bad attribute", rawPDU(pdu.TypeAttr, "x"), 0, "bad attribute ignored"},
		{"second CREDS", encode(t, credsPDU()), 0, "unrecognised PDU type from pmcd: CREDS"},
		{"reply", encode(t, &pdu.Text{Text: "x"}), 0, "unrecognised PDU type from pmcd: TEXT"},
		{"unknown type", rawPDU(0x7fff, "abcd"), 0, "unrecognised PDU type"},
		{"bad fetch", rawPDU(pdu.TypeFetch, "abcd"), pdu.ErrnoIPC, "bad request"},
		{"bad descriptor request", rawPDU(pdu.TypeDescReq, ""), pdu.ErrnoIPC, "bad request"},
		{"bad store", rawPDU(pdu.TypeResult, strings.Repeat("\xff", 64)), pdu.ErrnoIPC, "bad request"},
		{"bad names", rawPDU(pdu.TypePMNSNames, "abcd"), pdu.ErrnoIPC, "bad request"},
		{"store to an agent without Store", encode(t, new(pdu.Result)), pdu.ErrnoPermission, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			replies, log, err := serveScript(t, new(recordingAgent), append(tt.input, encode(t, &pdu.DescReq{PMID: metricID})...))
			if err != nil {
				t.Fatal(err)
			}
			if tt.code != 0 {
				var e pdu.Error
				if len(replies) == 0 {
					t.Fatal("no reply")
				}
				if _, err := pdu.ParseInto(replies[0], &e); err != nil || e.Code != tt.code {
					t.Errorf("reply %v, %v, want %v", e.Code, err, tt.code)
				}
				replies = replies[1:]
			}
			if len(replies) != 1 {
				t.Fatalf("%d replies more, want that to the last request", len(replies))
			}
			if _, err := pdu.ParseInto(replies[0], new(pdu.Desc)); err != nil {
				t.Error(err)
			}
			if tt.log == "" && log != "" || !strings.Contains(log, tt.log) {
				t.Errorf("log %q, want %q", log, tt.log)
			}
		})
	}
}

// largeValueAgent has a value of 1 MiB for each metric.
type largeValueAgent struct{ agents.Agent }

func (largeValueAgent) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	value := make([]byte, 1<<20)
	for _, id := range r.PMIDs {
		w.Begin(id)
		w.Block(pdu.NoInst, pdu.MetricAggregate, value)
	}
	return nil
}

// A request of a few hundred bytes must not use up the memory.
func TestServerReplyLimit(t *testing.T) {
	for n, want := range map[int]pdu.Type{15: pdu.TypeResult, 100: pdu.TypeError} {
		replies, log, err := serveScript(t, largeValueAgent{}, encode(t, &pdu.Fetch{PMIDs: make([]pdu.PMID, n)}))
		if err != nil || len(replies) != 1 {
			t.Fatalf("%d replies, %v, log: %s", len(replies), err, log)
		}
		if _, typ, _ := pdu.Header(replies[0]); typ != want {
			t.Errorf("%d values of 1 MiB are answered with %v, want %v", n, typ, want)
		}
	}
}

// Of ERROR PDUs only PM_ERR_NOTCONN is passed to the agent.
func TestServerEndContext(t *testing.T) {
	a := new(recordingAgent)
	input := encode(t, &pdu.Error{Code: pdu.ErrnoTimeout}, &pdu.Error{Code: pdu.ErrnoNotConn})
	if _, _, err := serveScript(t, a, input); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(a.events, ", "); got != "0 ends" {
		t.Errorf("notified %q, want one end", got)
	}
}

// A bad profile does not replace the profile before it.
func TestServerKeepsProfile(t *testing.T) {
	a := new(recordingAgent)
	fetch := encode(t, &pdu.Fetch{Context: 7, PMIDs: []pdu.PMID{metricID}})
	relay.SetFrom(fetch, 5)
	input := append(encode(t, &pdu.Profile{Context: 3}), fetch...)
	input = append(append(input, rawPDU(pdu.TypeProfile, "abcd")...), fetch...)
	replies, _, err := serveScript(t, a, input)
	if err != nil || len(replies) != 2 || len(a.profiles) != 1 {
		t.Errorf("%d replies, %d profiles, %v; want 2, 1", len(replies), len(a.profiles), err)
	}
	if want := (agents.Origin{Client: 5, Context: 7}); a.last != want {
		t.Errorf("the request is from %v, want %v", a.last, want)
	}
}

// The CREDS have the agent's process id and the features that it wants (CVERSION,
// libpcp.h).
// A server that prepares its agent reports after that that it is ready: pmcd waits for it.
func TestServerPrepare(t *testing.T) {
	prepared := false
	conn := &scriptedConn{in: bytes.NewReader(encode(t, credsPDU(), &pdu.DescReq{PMID: 1}))}
	s := serve.Server{Agent: oneMetricAgent{}, Prepare: func(context.Context) {
		prepared = true
		if n := conn.out.Len(); n != len(encode(t, credsPDU())) {
			t.Errorf("%d bytes before the agent is prepared", n)
		}
	}}
	if err := s.Serve(t.Context(), conn); err != nil || !prepared {
		t.Fatal(err, prepared)
	}
	var types []pdu.Type
	r := pdu.NewReader(&conn.out, 0)
	for {
		b, err := r.Next()
		if err != nil {
			break
		}
		_, m, err := pdu.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, m.Type())
		if e, ok := m.(*pdu.Error); ok && len(types) == 2 && e.Code != pdu.ErrnoReady {
			t.Errorf("the second PDU is %v", e.Code)
		}
	}
	if len(types) != 3 || types[1] != pdu.TypeError {
		t.Errorf("PDUs %v, want CREDS, ERROR and a reply", types)
	}
}

func TestServerGreeting(t *testing.T) {
	for _, tt := range []struct {
		name string
		a    agents.Agent
		want pdu.Features
	}{
		{"plain", oneMetricAgent{}, 0},
		{"wants attributes", new(recordingAgent), pdu.FeatureAuth | pdu.FeatureContainer},
	} {
		conn := &scriptedConn{in: strings.NewReader("")}
		if err := serve.Serve(t.Context(), tt.a, conn); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		var c pdu.Creds
		from, err := pdu.ParseInto(conn.out.Bytes(), &c)
		if err != nil || int(from) != os.Getpid() || len(c.Creds) != 1 || c.Creds[0] != pdu.VersionCred(tt.want) {
			t.Errorf("%s: %v from %d, %v", tt.name, c, from, err)
		}
	}
}

// A stream that does not follow the protocol ends with an error.
func TestServerBadStream(t *testing.T) {
	greeting := encode(t, credsPDU())
	for _, tt := range []struct {
		name  string
		input []byte
		want  string
	}{
		{"no CREDS", encode(t, &pdu.DescReq{PMID: metricID}), "DESC_REQ PDU in place of CREDS"},
		{"bad CREDS", rawPDU(pdu.TypeCreds, "\x00\x00\x00\x07"), "version exchange"},
		{"no PDU", []byte("hello world, this is none"), "unexpected EOF"},
		{"half a PDU", append(greeting, rawPDU(pdu.TypeDescReq, "abcd")[:14]...), "unexpected EOF"},
		{"negative length", append(greeting, "\xff\xff\xff\xffabcdabcd"...), "length"},
	} {
		err := serve.Serve(t.Context(), oneMetricAgent{}, &scriptedConn{in: bytes.NewReader(tt.input)})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// stuckAgent is a oneMetricAgent whose Desc waits for the end of its context.
type stuckAgent struct {
	oneMetricAgent
	entered chan struct{}
}

func (s stuckAgent) Desc(ctx context.Context, _ agents.Origin, _ pdu.PMID) (pdu.Desc, error) {
	s.entered <- struct{}{}
	<-ctx.Done()
	return pdu.Desc{}, ctx.Err()
}

// The context of a call ends when Serve's does.
func TestServerCancelsCalls(t *testing.T) {
	testutil.CheckGoroutines(t)
	ctx, cancel := context.WithCancel(t.Context())
	pmcd, conn := net.Pipe()
	defer pmcd.Close()
	a := stuckAgent{entered: make(chan struct{}, 1)}
	served := make(chan error, 1)
	go func() { served <- serve.Serve(ctx, a, conn) }()
	if _, err := io.ReadFull(pmcd, make([]byte, 20)); err != nil {
		t.Fatal(err)
	}
	if _, err := pmcd.Write(encode(t, credsPDU(), &pdu.DescReq{PMID: metricID})); err != nil {
		t.Fatal(err)
	}
	<-a.entered
	cancel()
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Errorf("Serve: %v", err)
	}
}

// unclosableStream is a stream whose Read goes on after Close, like a terminal's.
type unclosableStream struct {
	scriptedConn
	end <-chan struct{}
}

func (d *unclosableStream) Read([]byte) (int, error) {
	<-d.end
	return 0, io.EOF
}

// Serve ends with its context even if Read does not return.
func TestServerReadIgnoresClose(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	until := make(chan struct{})
	defer close(until)
	if err := serve.Serve(ctx, oneMetricAgent{}, &unclosableStream{end: until}); !errors.Is(err, context.Canceled) {
		t.Errorf("Serve: %v", err)
	}
}

// A panic of the agent ends Serve with an error that has the stack.
func TestServerPanic(t *testing.T) {
	_, _, err := serveScript(t, panickingAgent{}, encode(t, &pdu.DescReq{PMID: metricID}))
	if err == nil || !strings.Contains(err.Error(), "ouch") || !strings.Contains(err.Error(), "panickingAgent.Desc") {
		t.Errorf("got %v, want ouch and its stack", err)
	}
}

// Whatever pmcd sends, the replies are valid PDUs, and not more than the PDUs that
// were received.
func FuzzServer(f *testing.F) {
	f.Add(encode(f, new(pdu.Profile), &pdu.Fetch{PMIDs: []pdu.PMID{metricID, 1}}, &pdu.DescReq{PMID: metricID}))
	f.Add(encode(f, &pdu.InstanceReq{InDom: 1, Inst: pdu.NoInst}, &pdu.TextReq{Kind: pdu.TextOneLine}, &pdu.LabelReq{Kind: pdu.LabelDomain}))
	f.Add(encode(f, &pdu.PMNSNames{Names: []string{"a.b"}}, &pdu.PMNSIDs{PMIDs: []pdu.PMID{1}}, &pdu.PMNSChild{Name: "a"}, &pdu.PMNSTraverse{Name: "a"}))
	f.Add(encode(f, new(pdu.Result), &pdu.Attr{Code: pdu.AttrUserID, Value: []byte("0")}, &pdu.Error{Code: pdu.ErrnoNotConn}))
	f.Fuzz(func(t *testing.T, input []byte) {
		replies, _, _ := serveScript(t, new(recordingAgent), input)
		if most := len(input) / pdu.HeaderLen; len(replies) > most {
			t.Errorf("%d replies to %d bytes", len(replies), len(input))
		}
		for _, b := range replies {
			if _, _, err := pdu.Parse(b); err != nil {
				t.Errorf("reply %x: %v", b, err)
			}
		}
	})
}
