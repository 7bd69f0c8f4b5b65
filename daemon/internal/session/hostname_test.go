package session

import (
	"errors"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/testutil"
)

// The name is read when some time has passed. A failure to read it changes nothing.
func TestHostname(t *testing.T) {
	name, failure := "one", error(nil)
	h := hostname{get: func() (string, error) { return name, failure }, every: time.Minute}
	now := time.Now()
	look := func(wantBefore, wantName string) {
		t.Helper()
		before, got, err := h.look(now)
		if before != wantBefore || got != wantName || err != failure {
			t.Errorf("got %q after %q, %v; want %q after %q, %v", got, before, err, wantName, wantBefore, failure)
		}
		if h.due(now.Add(time.Minute-time.Nanosecond)) || !h.due(now.Add(time.Minute)) {
			t.Error("the next look is not due after a minute")
		}
		for _, step := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
			early, late := testutil.ClockSet(now, step), testutil.ClockSet(now.Add(time.Minute), step)
			if h.due(early) || !h.due(late) {
				t.Errorf("the next look is not due after a minute when the clock is set by %v", step)
			}
		}
	}
	if !h.due(now) {
		t.Error("the first look is not due")
	}
	look("", "one")
	name = "two"
	now = now.Add(time.Hour)
	look("one", "two")
	name, failure = "", errors.New("no name")
	look("", "")
	name, failure = "two", nil
	look("two", "two")
}
