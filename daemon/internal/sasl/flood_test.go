package sasl_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/daemon/internal/sasl"
	"github.com/gopcp/pmcd/internal/fairqueue"
	"github.com/gopcp/pmcd/internal/saslhelper"
	"github.com/gopcp/pmcd/internal/testutil"
)

// Many logins of one group, whose clients then say nothing, do not keep another group out,
// and there are never more than MaxLogins.
func TestPeerFlood(t *testing.T) {
	const most = 4
	h := newHarness(t, database, func(opt *sasl.Options, _ *saslhelper.Options) { opt.MaxLogins = most })
	flood := func(member uint64) sasl.Login {
		return sasl.Login{Key: fairqueue.Key{Group: fairqueue.Group{ID: 1}, Member: member}}
	}
	var list []*sasl.Exchange
	for i := range most {
		e := h.begin(flood(uint64(i)))
		h.challenge(e, "LOGIN")
		list = append(list, e)
	}
	h.wantChildren(most)
	first := list[0]
	victim := sasl.Login{Key: fairqueue.Key{Group: fairqueue.Group{ID: 2}}}
	if _, user, err := h.logInFrom(victim, plain("alice", password)); user != "alice" {
		t.Fatalf("the other group: user %q, %v", user, err)
	}
	if _, _, _, err := first.Step(t.Context(), []byte("alice")); code(err) != -21345 || !strings.Contains(err.Error(), "too many at once") {
		t.Errorf("the login that has waited the longest: %v", err)
	}
	h.challenge(list[1], "alice") // goes on

	// More than may be in progress: each comes to one in the end, because others are ended.
	var wg sync.WaitGroup
	for i := range 3 * most {
		wg.Go(func() {
			e, _, err := h.Begin(t.Context(), flood(uint64(i)))
			if err != nil {
				t.Errorf("login %d: %v", i, err)
				return
			}
			t.Cleanup(e.Close)
			if n := h.Logins(); n > most {
				t.Errorf("%d logins are under way, want at most %d", n, most)
			}
		})
	}
	testutil.Eventually(t, "logins wait to begin", func() bool { return h.Waiting() > 0 })
	for i := range 5 {
		if _, user, err := h.logInFrom(victim, plain("alice", password)); user != "alice" {
			t.Errorf("login %d of the other group: user %q, %v", i, user, err)
		}
	}
	wg.Wait()
	testutil.Eventually(t, "the processes of other logins have ended", func() bool { return len(h.children()) <= most })

	// At the end the helper has waited for its children, unless it was too slow and killed.
	pids := h.children()
	h.Close()
	if helper := h.procs[0]; helper.Status() == 0 {
		for _, pid := range pids {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
				t.Errorf("process %d is left", pid)
			}
		}
	} else {
		t.Logf("the helper has ended with %v", helper.Status())
	}
}
