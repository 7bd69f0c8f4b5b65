package open

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// The error of an agent that does not answer says that pmcd closed the connection, before
// the status with which the agent may have ended because of that.
func TestNoAnswer(t *testing.T) {
	testutil.CheckLeaks(t)
	o := New(Config{Stderr: io.Discard, Log: slog.New(slog.DiscardHandler)})
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
