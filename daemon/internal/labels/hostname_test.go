package labels

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/internal/testutil"
)

// The name is read when some time has passed. A failure to read it changes nothing.
func TestHostname(t *testing.T) {
	name, failure := "one", error(nil)
	log := slog.New(slog.DiscardHandler)
	h := New(Config{
		Hostname: func() (string, error) { return name, failure }, HostnameEvery: time.Minute,
		Log: log, Limiter: diag.NewLogLimiter(log),
	})
	now := time.Now()
	check := func(what string, want bool) {
		t.Helper()
		if got := h.CheckHostname(now); got != want || h.Hostname() != name {
			t.Errorf("%s: %q, changed: %t; want %q, changed: %t", what, h.Hostname(), got, name, want)
		}
		if h.HostnameDue(now.Add(time.Minute-time.Nanosecond)) || !h.HostnameDue(now.Add(time.Minute)) {
			t.Errorf("%s: the next check is not due after a minute", what)
		}
		for _, step := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
			early, late := testutil.ClockSet(now, step), testutil.ClockSet(now.Add(time.Minute), step)
			if h.HostnameDue(early) || !h.HostnameDue(late) {
				t.Errorf("%s: the next check is not due after a minute when the clock is set by %v", what, step)
			}
		}
	}
	if !h.HostnameDue(now) {
		t.Error("the first check is not due")
	}
	check("at first", false)
	name = "two"
	now = now.Add(time.Hour)
	check("another name", true)
	name, failure = "", errors.New("no name")
	check("no name", false)
	name, failure = "two", nil
	check("the same name again", false)
}
