package daemon

import (
	"runtime"
	"testing"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/logtest"
	"github.com/gopcp/pmcd/daemon/internal/session"
)

// The line about overload says what an admin can do.
func TestOverloadInTheLog(t *testing.T) {
	const (
		first = "pmcd has more requests than it can answer at once: for 12.3s of the last minute requests were queued. "
		then  = ". pmcdctl status --json lists the clients: let them ask less often, or limit the connections of a host or user (maximum N connections in [access] of pmcd.conf)"
	)
	for _, tt := range []struct {
		most   string
		ofMost uint64
		want   string
	}{
		{"uid 1000", 80, first + "Of 90 requests 80 were from uid 1000" + then},
		{"", 0, first + "There were 90 requests" + then},
	} {
		log, logs := logtest.NewLog()
		o := Overload{Overload: session.Overload{Time: 12345678 * time.Microsecond, Requests: 90, Most: tt.most, OfMost: tt.ofMost}}
		o.log(log)
		if all := logs.All(); len(all) != 1 || all[0].Message != tt.want {
			t.Errorf("got %+v, want\n%s", all, tt.want)
		}
	}
}

// What is computed at a time follows GOMAXPROCS, and the log says it.
func TestCPUsChanged(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	r := newHarness(t, nil, nil)
	for cpus, want := range map[int]string{
		1: "it computes 2 requests, 1 TLS handshakes and as many logins at a time",
		7: "it computes 8 requests, 6 TLS handshakes and as many logins at a time",
	} {
		runtime.GOMAXPROCS(cpus + 1)
		if r.CPUsChanged(cpus); !r.logged(want) {
			t.Errorf("%d CPUs: the log has not %q", cpus, want)
		}
	}
}
