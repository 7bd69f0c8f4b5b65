package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/pmcd"
	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/testutil"
)

// If clients must log in and cannot, a warning says so, at the start and at each reload.
func TestLoginsRequiredWithoutSASL(t *testing.T) {
	noHelper := func(*os.File, bool) (*child.Process, error) { return nil, errors.New("no library") }
	for _, tt := range []struct {
		name     string
		required bool
		helper   func(*os.File, bool) (*child.Process, error)
		reasons  int // lines of the log with the reason
	}{
		{"-S, and no helper", true, nil, 0},
		{"-S, and no library", true, noHelper, 1},
		{"no library", false, noHelper, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newHarness(t, func(c *Config) { c.Security.CredsRequired, c.Security.SASLHelper = tt.required, tt.helper }, nil)
			r.awaitStarts()
			var st pmcd.Status
			if (host{r.Daemon}).Status(&st); st.Features.Authentication || st.Features.Secure || st.Features.ClientCertRequired {
				t.Errorf("pmcd.feature.* is %+v", st.Features)
			}
			check := func(when string, want int) {
				t.Helper()
				if !tt.required {
					want = 0
				}
				testutil.Eventually(t, fmt.Sprintf("%s: %d warnings, and the reason %d times", when, want, tt.reasons), func() bool {
					n, reasons := 0, 0
					for _, e := range r.logs.All() {
						if strings.Contains(e.Message, "clients at TCP ports must log in (-S, or rules for users or groups) and cannot, ") {
							n++
						}
						if strings.Contains(e.Message, "clients cannot log in (SASL): cannot start the SASL helper: no library") {
							reasons++
						}
					}
					return n == want && reasons == tt.reasons
				})
			}
			check("at the start", 1)
			r.reloaded()
			check("after a reload", 2)
		})
	}
}

// A daemon that ends does not wait for a SASL helper that hangs at its start.
func TestEndWhileSASLStarts(t *testing.T) {
	r := newHarness(t, nil, nil) // it counts goroutines
	r.stop()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cfg := r.cfg
	cfg.Listeners, cfg.Security.CredsRequired = new(Listeners), true
	cfg.Manager.Serving = func() { t.Error("clients are served") }
	cfg.Security.SASLHelper = func(sock *os.File, _ bool) (*child.Process, error) {
		defer cancel()
		return child.Start(child.Spec{Argv: []string{"sleep", "1000"}, Stdin: sock, Stderr: null})
	}
	d, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
	for _, e := range r.logs.All() {
		if strings.Contains(e.Message, "log in") { // it would be said after a timeout
			t.Errorf("log: %s", e.Message)
		}
	}
}
