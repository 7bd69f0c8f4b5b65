package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/daemon"
)

// A status is one line of limited length.
func TestStatusText(t *testing.T) {
	for _, tt := range []struct {
		h    daemon.Health
		want string
	}{
		{daemon.Health{Agents: 7, Ready: 7}, "serving, 7 of 7 agents ready"},
		{daemon.Health{Agents: 7, Ready: 5, Unwell: []string{"simple is down", "a\nREADY=0 is late"}, Problems: []string{"x runs as pcp"}},
			"serving, 5 of 7 agents ready; simple is down; a\\nREADY=0 is late; x runs as pcp"},
	} {
		if got := statusText(tt.h); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
	long := daemon.Health{Problems: slices.Repeat([]string{strings.Repeat("x", 100)}, 100)}
	if got := statusText(long); len(got) > maxStatus+50 || !strings.HasSuffix(got, "; ... (pmcdctl status has all)") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

func TestNewNotifier(t *testing.T) {
	pmcdtest.NewManager(t, "@"+t.TempDir())
	addr := t.TempDir() + "/s"
	pmcdtest.NewManager(t, addr)
	tests := []struct {
		env      Env
		watchdog time.Duration
		err      string
		none     bool
	}{
		{env: Env{}, none: true},
		{env: Env{"WATCHDOG_USEC": "5"}, none: true},
		{env: Env{"NOTIFY_SOCKET": addr}},
		{env: Env{"NOTIFY_SOCKET": addr, "WATCHDOG_USEC": "30000000"}, watchdog: 30 * time.Second},
		{env: Env{"NOTIFY_SOCKET": addr, "WATCHDOG_USEC": "-1"}},
		{env: Env{"NOTIFY_SOCKET": addr, "WATCHDOG_USEC": "infinity"}},
		{env: Env{"NOTIFY_SOCKET": addr, "WATCHDOG_USEC": "9223372036854775807"}, watchdog: (1<<63 - 1) / 1000 * time.Microsecond},
		{env: Env{"NOTIFY_SOCKET": "vsock:2:1234"}, err: "is neither a path nor an abstract address"},
		{env: Env{"NOTIFY_SOCKET": "sock"}, err: "is neither a path nor an abstract address"},
		{env: Env{"NOTIFY_SOCKET": addr + "x"}, err: "no such file"},
		{env: Env{"NOTIFY_SOCKET": "/" + strings.Repeat("x", 200)}, err: "invalid argument"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.env), func(t *testing.T) {
			n, err := NewNotifier(tt.env)
			switch {
			case tt.err != "":
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%v: %v, want %q", tt.env, err, tt.err)
				}
			case err != nil:
				t.Errorf("%v: %v", tt.env, err)
			case (n == nil) != tt.none:
				t.Errorf("%v: %v", tt.env, n)
			case n != nil && n.watchdog != tt.watchdog:
				t.Errorf("%v: watchdog %v, want %v", tt.env, n.watchdog, tt.watchdog)
			}
			if n != nil {
				n.conn.Close()
			}
		})
	}
}

// The watchdog is notified as long as the probe succeeds.
func TestWatch(t *testing.T) {
	addr := t.TempDir() + "/s"
	m := pmcdtest.NewManager(t, addr)
	n, err := NewNotifier(Env{"NOTIFY_SOCKET": addr, "WATCHDOG_USEC": "20000"})
	if err != nil {
		t.Fatal(err)
	}
	defer n.conn.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var probes atomic.Int32
	hung, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		n.Watchdog(ctx, func(ctx context.Context) error {
			switch probes.Add(1) {
			case 1:
				return errors.New("ill")
			case 3:
				close(hung)
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
	}()
	if got, err := m.Within(peer.Hangs); err != nil || !slices.Equal(got, []string{"WATCHDOG=1"}) {
		t.Errorf("got %q, %v", got, err)
	}
	<-hung
	cancel()
	<-ended
	if got, err := m.Within(0); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without a probe: %q, %v", got, err)
	}
}

// A probe that fails is repeated before the time of the watchdog is over.
func TestWatchTriesAgain(t *testing.T) {
	addr := t.TempDir() + "/s"
	pmcdtest.NewManager(t, addr)
	synctest.Test(t, func(t *testing.T) {
		n, err := NewNotifier(Env{"NOTIFY_SOCKET": addr, "WATCHDOG_USEC": "8000000"})
		if err != nil {
			t.Fatal(err)
		}
		defer n.conn.Close()
		ctx, cancel := context.WithCancel(t.Context())
		began, at := time.Now(), []time.Duration(nil)
		n.Watchdog(ctx, func(context.Context) error {
			switch at = append(at, time.Since(began)); len(at) {
			case 1:
				return errors.New("ill")
			case 3:
				cancel()
			}
			return nil
		})
		if want := []time.Duration{4 * time.Second, 5 * time.Second, 9 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("probes at %v, want %v", at, want)
		}
	})
}
