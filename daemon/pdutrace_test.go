package daemon

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/debugopt"
)

// Each debug option shows what docs/logging.md says, and only that.
func TestDebugOptions(t *testing.T) {
	// One line for each, of a session in which everything happens.
	shows := map[string]string{
		"pdu":    "to client[0]: HIGHRES_RESULT len=",
		"appl0":  "from client[0]: HIGHRES_FETCH len=",
		"appl1":  "pmcd.conf:\nHost access list:",
		"appl3":  "client[0] 127.0.0.1 has connected, seq=0",
		"appl4":  "pmcd: started PMDA t (240), pid=-1",
		"appl5":  `client[1] attribute userid=`,
		"appl6":  "state change for all clients: DROP_AGENT",
		"attr":   `client[1] attribute userid=`,
		"auth":   "client[0] 127.0.0.1 is user unknown; denied: store",
		"access": "client[0] 127.0.0.1: admitted, denied: store",
		"config": `pmcd.conf:2:1: agent "t" (dom 240) bin pipe cmd=t`,
		"pmns":   " names",
		"labels": "context labels of the files, changed: ",
	}
	play := func(t *testing.T, options string) (lines []string) {
		r := newHarness(t, func(c *Config) {
			c.Debug = options
			os.WriteFile(c.Files.Conf, []byte("pmcd 2 dso pmcd_init /none\nt 240 pipe binary t\nu 241 pipe binary u\n[access]\ndisallow .* : store;\n"), 0o666)
		}, nil)
		r.awaitStarts()
		c := r.dial()
		c.send(&pdu.Profile{})
		c.fetch(id(240, 1))
		unix := r.dialTo("unix", r.unix, 0)
		unix.do(&pdu.LabelReq{Ident: noIdent, Kind: pdu.LabelContext})
		r.write("pmcd.conf", "pmcd 2 dso pmcd_init /none\nt 240 pipe binary t\n")
		r.write("pmns", "root { t }\nt { nine 240:0:9 }\n")
		r.reloaded()
		for _, e := range r.logs.All() {
			lines = append(lines, e.Message)
		}
		return lines
	}
	has := func(lines []string, text string) bool {
		return slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, text) })
	}
	t.Run("none", func(t *testing.T) {
		lines := play(t, "appl2,services,desperate")
		for name, text := range shows {
			if has(lines, text) {
				t.Errorf("%q is there without %s", text, name)
			}
		}
	})
	all, err := debugopt.Parse("all")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if diag.DebugOptions(name) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			lines := play(t, name)
			if shows[name] == "" || !has(lines, shows[name]) {
				t.Errorf("no %q:\n%s", shows[name], strings.Join(lines, "\n"))
			}
		})
	}
}

// Options can be changed while pmcd runs.
func TestDebugIsSet(t *testing.T) {
	r := newHarness(t, nil, nil)
	r.awaitStarts()
	h := host{r.Daemon}
	c := r.dial()
	c.send(&pdu.Profile{})
	for _, tt := range []struct {
		opts string
		err  error
		says bool
	}{{"pdu", nil, true}, {"no such", pdu.ErrnoConv, true}, {"fetch,appl2", nil, false}, {"all", nil, true}, {"", nil, false}} {
		if err := h.SetDebug(tt.opts); err != tt.err {
			t.Errorf("%q: %v, want %v", tt.opts, err, tt.err)
		}
		r.logs.TakeAll()
		c.fetch(id(240, 1))
		if got := r.logged("to client[0]"); got != tt.says {
			t.Errorf("%q: a PDU in the log: %v, want %v", tt.opts, got, tt.says)
		}
	}
}

// Both ends of what a client and an agent say to each other are in the trace.
func TestTraceOfAFetch(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.TraceMask = diag.TraceConns | diag.TracePDUs }, nil)
	r.awaitStarts()
	r.trace.Resize(100)
	c := r.dial()
	c.send(&pdu.Profile{})
	c.fetch(id(240, 1))
	c.Conn.Close()
	testutil.Eventually(t, "the client has gone", func() bool { return r.sessions.NumClients() == 0 })
	c = r.dial()
	c.sendBytes(word(64<<10+4, 0x7004, 0))
	c.closed()
	testutil.Eventually(t, "the client has gone", func() bool { return r.sessions.NumClients() == 0 })
	r.trace.Dump()
	dumps := r.logs.With("New client: [0] ") // the start of agents may be logged meanwhile
	if len(dumps) != 1 {
		t.Fatalf("%d traces in the log", len(dumps))
	}
	got := regexp.MustCompile(`(?m)(^->.{9}|fd=\d+|addr=[^,]+)`).ReplaceAllStringFunc(dumps[0].Message, func(s string) string {
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
