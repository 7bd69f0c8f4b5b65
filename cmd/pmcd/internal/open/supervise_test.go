package open

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/logging"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/daemon"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// Agents fail in all ways in one daemon: each gets the state and the last error that it
// should, and another agent answers every request of one connection meanwhile.
func TestSupervision(t *testing.T) {
	tests := []struct {
		what   string
		is     func(daemon.AgentStatus) bool // in the end
		errors []string                      // in LastError
		stderr bool                          // and the end of its stderr
	}{
		{"exits at once", func(st daemon.AgentStatus) bool { return st.Failures >= 3 }, []string{"exited with status 3"}, true},
		{"exits after a second", func(st daemon.AgentStatus) bool { return st.Restarts >= 2 }, []string{"exited with status 4", "it was up for "}, true},
		{"exits in a fetch", func(st daemon.AgentStatus) bool { return st.Restarts >= 2 },
			[]string{"exited with status 5", "] unanswered for ", "it was up for "}, true},
		{"is killed in a fetch", func(st daemon.AgentStatus) bool { return st.Restarts >= 2 },
			[]string{"ended by signal 9 (SIGKILL)", "] unanswered for ", "it was up for "}, false},
		{"is slow once", func(st daemon.AgentStatus) bool {
			return st.Abandoned >= 1 && st.Requests > 3 && st.State == daemon.AgentReady && st.Restarts == 0
		}, nil, false},
		{"hangs", func(st daemon.AgentStatus) bool { return st.Restarts >= 2 },
			[]string{"late for ", "pmcd ended the process ", " with SIGTERM", "] unanswered for "}, false},
		{"ignores SIGTERM", func(st daemon.AgentStatus) bool { return st.Restarts >= 2 },
			[]string{"late for ", "pmcd ended the process ", " with SIGKILL"}, false},
		{"leaves grandchildren", func(st daemon.AgentStatus) bool { return st.Restarts >= 2 },
			[]string{"exited with status 6"}, true},
		{"chatters", func(st daemon.AgentStatus) bool {
			return st.Requests > 20 && st.State == daemon.AgentReady && st.Restarts == 0
		}, nil, false},
	}
	testutil.CheckLeaks(t)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, path(pmcdtest.ScriptName)); err != nil {
		t.Fatal(err)
	}
	conf := fmt.Sprintf("good 299 pipe binary %s %s good\n", path(pmcdtest.ScriptName), dir)
	for i, tt := range tests {
		conf += fmt.Sprintf("%q %d pipe binary %s %s %q\n", tt.what, 300+i, path(pmcdtest.ScriptName), dir, tt.what)
	}
	for name, text := range map[string]string{"conf": conf, "pmns": "root { x }\nx { y 299:0:1 }\n"} {
		if err := os.WriteFile(path(name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	logFile, err := os.OpenFile(path("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer logFile.Close()
	log := slog.New(logging.NewHandler(logging.NewCore(logFile, "text")))
	listeners, err := daemon.Listen(nil, nil, path("sock"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.New(t.Context(), daemon.Config{
		Listeners: listeners,
		Files:     daemon.Files{Conf: path("conf"), Namespace: daemon.Namespace{Path: path("pmns")}, Labels: dir},
		Host:      daemon.Host{RunDir: dir, TmpDir: dir},
		Limits:    daemon.Limits{Metrics: 64},
		Agents: daemon.Agents{
			Open:           New(Config{Log: log}).Open,
			RequestTimeout: 400 * time.Millisecond, HandshakeTimeout: 20 * time.Second, LateGrace: 1500 * time.Millisecond,
		},
		Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()

	// One connection for the good agent. On a busy host it is late now and then, and is
	// ended if it is late for long.
	var stop atomic.Bool
	var good atomic.Int64
	goodEnded := make(chan error, 1)
	f, err := pmcdtest.Connect(path("sock"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for !stop.Load() {
			v, err := pmcdtest.Value(f, pdu.NewPMID(299, 0, 1))
			if errors.Is(err, pdu.ErrnoAgain) || errors.Is(err, pdu.ErrnoNoAgent) {
				continue
			}
			if err != nil || v != 1 {
				goodEnded <- fmt.Errorf("after %d requests: value %d, %v", good.Load(), v, err)
				return
			}
			good.Add(1)
		}
		goodEnded <- nil
	}()
	agent := func(what string) daemon.AgentStatus {
		all := d.Status().Agents
		return all[slices.IndexFunc(all, func(st daemon.AgentStatus) bool { return st.Name == what })]
	}
	t.Run("agents", func(t *testing.T) {
		for i, tt := range tests {
			t.Run(tt.what, func(t *testing.T) {
				t.Parallel()
				f, err := pmcdtest.Connect(path("sock"))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				var st daemon.AgentStatus
				values := 0
				if !peer.Until(60*time.Second, func() bool {
					if _, err := pmcdtest.Value(f, pdu.NewPMID(300+i, 0, 1)); err == nil {
						values++
					}
					st = agent(tt.what)
					return tt.is(st)
				}) {
					t.Fatalf("%d values, and still %+v", values, st)
				}
				for _, want := range tt.errors {
					if !strings.Contains(st.LastError, want) {
						t.Errorf("last error %q has no %q", st.LastError, want)
					}
				}
				if tt.stderr && !slices.Equal(st.StderrTail, []string{"it ends here"}) {
					t.Errorf("end of its stderr: %q", st.StderrTail)
				}
			})
		}
	})
	stop.Store(true)
	if err := <-goodEnded; err != nil {
		t.Errorf("the good agent: %v", err)
	}
	if n := good.Load(); n < 100 {
		t.Errorf("the good agent has answered %d requests only", n)
	}
	f.Close()

	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if !peer.Until(testutil.Hangs, func() bool { return len(pmcdtest.WithText(dir)) == 0 }) {
		t.Errorf("processes %v are left", pmcdtest.WithText(dir))
	}
	logFile.Close()
	text, err := os.ReadFile(path("log"))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 1<<20 {
		t.Errorf("the log has %d bytes", len(text))
	}
	for _, want := range []string{
		" lines dropped\n", "Auto-restarting agents.\n", "\tend of its stderr:\n\t| it ends here\n", "\nagent \"exits at once\": it ends here\n",
		`Cleanup "exits in a fetch" agent (dom 302): protocol failure for fd=`, ", exit(5)\n", ", signal(9)\n",
		`agent "hangs" (dom 305) is late; no answer to FETCH for client[`,
	} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("%q is not in the log", want)
		}
	}
	if t.Failed() {
		chatter := regexp.MustCompile(`(?m)^agent ".*": (chatter )+\n`)
		t.Logf("log:\n%.20000s", chatter.ReplaceAll(text, nil))
	}
}
