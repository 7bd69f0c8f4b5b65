package open

import (
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/logging"
	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// An agent can write neither what controls a terminal nor what looks like a line of pmcd.
func TestHostileOutput(t *testing.T) {
	const script = `printf '[Sat Nov 21 13:00:00] pmcd(1) Error: forged\n\033[2J\r\302\233\342\200\256\177\377\n<0>x' >&2`
	for format, want := range map[string]string{
		"text": "agent \"odd\": [Sat Nov 21 13:00:00] pmcd(1) Error: forged\n" +
			`agent "odd": \x1b[2J\r\u009b\u202e\x7f\xff` + "\nagent \"odd\": <0>x\n",
		"json": `"msg":"agent \"odd\": \\x1b[2J\\r\\u009b\\u202e\\x7f\\xff","pid":`,
	} {
		var log testutil.Log
		o := New(Config{Log: slog.New(logging.NewHandler(logging.NewCore(&log, format)))})
		spec := pmcdconf.Agent{Name: "odd", Domain: 240, Kind: pmcdconf.Pipe, Argv: []string{"sh", "-c", script}}
		ctx, cancel := transport.StartContext(t.Context(), testutil.Hangs)
		defer cancel()
		if _, err := o.Open(ctx, &spec, wire.Options{Counts: new(pdu.Counts)}); err == nil {
			t.Fatal("it is an agent")
		}
		if text := log.String(); !strings.Contains(text, want) || strings.ContainsAny(text, "\x1b\r\x7f\u009b\u202e") || !utf8.ValidString(text) {
			t.Errorf("%s: the log has\n%q\nwant\n%q", format, text, want)
		}
	}
}

// The error of an agent that does not answer says that pmcd closed the connection, before
// the status with which the agent may have ended because of that.
func TestNoAnswer(t *testing.T) {
	testutil.CheckLeaks(t)
	o := New(Config{Log: slog.New(slog.DiscardHandler)})
	// cat ends when its standard input is closed.
	spec := pmcdconf.Agent{Name: "silent", Domain: 240, Kind: pmcdconf.Pipe, Argv: []string{"cat"}}
	ctx, cancel := transport.StartContext(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := o.Open(ctx, &spec, wire.Options{Counts: new(pdu.Counts)})
	const want = "cannot negotiate with the agent: no answer in 50ms (-q), so pmcd closed the connection"
	if err == nil || !strings.HasPrefix(transport.Reason(err), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// An error of a start says what was to be started.
func TestStartError(t *testing.T) {
	for _, tt := range []struct {
		line, program, want string
	}{
		{"root 1 dso root_init builtin", roothelper.Self, "error starting a process for the built-in agent"},
		{"proc 3 pipe binary /nosuch/pmdaproc", roothelper.Self, "error starting a process for the built-in agent"},
		{"sample 29 dso sample_init /pmda_sample.so", "", "error starting a process for /pmda_sample.so"},
		{"simple 253 pipe binary /pmdasimple -d 253", "", "error starting /pmdasimple"},
		{"simple 253 socket unix /sock /pmdasimple", "", "error starting /pmdasimple"},
	} {
		conf, err := pmcdconf.Parse("conf", strings.NewReader(tt.line+"\n"), pmcdconf.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := starting(&conf.Agents[0], tt.program); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.line, got, tt.want)
		}
	}
}
