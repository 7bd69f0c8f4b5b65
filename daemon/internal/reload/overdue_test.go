package reload

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A reload is overdue from Config.Overdue on, until it ends.
func TestOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(Reloader)
		r.cfg.Overdue = 30 * time.Second
		expect := func(when, want string) {
			t.Helper()
			if got := r.overdue(); (got == "") != (want == "") || !strings.Contains(got, want) {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		r.step("does nothing")
		expect("no reload", "")
		r.Begin()
		r.step("reads pmcd.conf")
		time.Sleep(30*time.Second - time.Millisecond)
		expect("a moment before", "")
		time.Sleep(time.Millisecond)
		expect("at that time", "it reads pmcd.conf;")
		r.end()
		expect("after the end", "")
	})
}
