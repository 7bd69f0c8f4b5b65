package linux

import (
	"io"
	"log/slog"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// The trees of files that the tests read are recorded (testdata/vm) or composed
// from the formats that the kernel documents.

// newHarness returns a harness for an agent without help texts and views of
// containers. addrs are the IPv4 addresses of its interfaces.
func newHarness(tb testing.TB, o Options, addrs ...ipv4) *pmdatest.Harness {
	tb.Helper()
	if o.CacheDir == "" {
		o.CacheDir = filepath.Join(tb.TempDir(), "none") // ids are not saved
	}
	if o.ConfDir == "" {
		o.ConfDir = filepath.Join(tb.TempDir(), "none")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	h := newHost(60, o)
	h.ipv4 = func(f func(ipv4)) error {
		for _, i := range addrs {
			f(i)
		}
		return nil
	}
	h.guard.timeout = time.Hour // no file blocks
	// h.config has no help texts, which take time to parse.
	a, err := pmda.New(h.config())
	if err != nil {
		tb.Fatal(err)
	}
	return pmdatest.New(tb, 60, a, newHost(60, o).metrics())
}

func addr4(label, addr string) ipv4 { return ipv4{[]byte(label), netip.MustParseAddr(addr)} }
