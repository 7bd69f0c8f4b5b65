package agentset

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// The warning about a late agent says what happens to requests, and what pmcd does next.
func TestLateWarning(t *testing.T) {
	process := func(c *transport.Conn) { c.Process = newKilledProcess() }
	local := func(c *transport.Conn) { c.In, c.Out = -1, -1 }
	for _, tt := range []struct {
		name      string
		kind      func(*transport.Conn)
		grace     time.Duration
		noRestart bool
		noTimeout bool
		want      string
	}{
		{"a process", process, 0, false, false, "without an answer in 50s (--late-grace) it is killed, and started again"},
		{"with an option", process, 7 * time.Second, false, false, "without an answer in 7s (--late-grace) it is killed, and started again"},
		{"as C pmcd", process, -1, false, false, "it is killed now (--late-grace=0), and started again"},
		{"without restarts", process, 0, true, false, "without an answer in 50s (--late-grace) it is killed, and started again by a reload only"},
		{"without timeouts since then", process, 0, false, true, "it is not restarted (-t 0)"},
		{"a socket", func(*transport.Conn) {}, 0, false, false, "without an answer in 50s (--late-grace) it is disconnected, and connected again"},
		{"in pmcd's process", local, 0, false, false, "it runs in pmcd's process and cannot be killed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, func(c *Config) {
					c.LateGrace, c.NoRestart = tt.grace, tt.noRestart
					open := c.Open
					c.Open = func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
						conn, err := open(ctx, spec, opt)
						tt.kind(conn)
						return conn, err
					}
				}, nil)
				h.start()
				if tt.noTimeout {
					h.timeout.Store(0)
				}
				h.last.owes = transport.Pending{Type: pdu.TypeFetch, Client: 3, Since: time.Now()}
				h.pass(5 * time.Second)
				h.last.opt.OnState(transport.Late)
				synctest.Wait()
				want := `agent "t" (dom 240) is late; no answer to FETCH for client[3] in 5s (-t); requests for it get PM_ERR_AGAIN until it answers; ` + tt.want
				got := h.logs.With("is late")
				if len(got) != 1 || got[0].Message != want || got[0].Level != slog.LevelWarn {
					t.Errorf("got %+v\nwant a warning %q", got, want)
				}
			})
		})
	}
}
