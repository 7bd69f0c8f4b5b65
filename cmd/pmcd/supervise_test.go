package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/launch/goplugin"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/logging"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/daemon"
	"github.com/gopcp/pmcd/pdu"
)

// The test binary is an agent, too, under this name: its arguments are a
// directory of its own, and what it does.
const scriptName = "pmdascript"

// A scripted is an Agent whose metrics are all 1. do, if there is one, comes
// before the answer to a fetch.
type scripted struct{ do func() }

func (scripted) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	return pdu.Desc{PMID: id, ValueType: pdu.MetricU32, InDom: pdu.NoInDom, Sem: pdu.SemInstant}, nil
}

func (s scripted) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	if s.do != nil {
		s.do()
	}
	for _, id := range r.PMIDs {
		w.Begin(id)
		w.Word(-1, 1)
	}
	return nil
}

// playScript is the main program of the agent.
func playScript(dir, what string) {
	exit := func(code int) { fmt.Fprintln(os.Stderr, "it ends here"); os.Exit(code) }
	die := func(sig syscall.Signal) {
		syscall.Kill(os.Getpid(), sig)
		select {}
	}
	var a scripted
	switch what {
	case "exits at once":
		exit(3)
	case "exits after a second":
		time.AfterFunc(time.Second, func() { exit(4) })
	case "exits in a fetch":
		a.do = func() { exit(5) }
	case "is killed in a fetch":
		a.do = func() { die(syscall.SIGKILL) }
	case "is slow once":
		a.do = func() {
			if f, err := os.OpenFile(filepath.Join(dir, "slow"), os.O_CREATE|os.O_EXCL, 0o666); err == nil {
				f.Close()
				time.Sleep(800 * time.Millisecond)
			}
		}
	case "hangs":
		a.do = func() { select {} }
	case "ignores SIGTERM":
		signal.Ignore(syscall.SIGTERM)
		a.do = func() { select {} }
	case "leaves grandchildren":
		cmd := exec.Command("/bin/sh", "-c", "sleep 600; exit", dir)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			exit(1)
		}
		a.do = func() { exit(6) }
	case "chatters":
		go func() {
			line := []byte(strings.Repeat("chatter ", 12) + "\n")
			for {
				os.Stderr.Write(line)
			}
		}()
	}
	wire.Serve(context.Background(), a, struct {
		io.Reader
		io.WriteCloser
	}{os.Stdin, os.Stdout})
}

// Agents that fail in all ways, in one daemon: each is seen through, and another
// agent answers every request of one connection meanwhile.
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
			return st.Abandoned == 1 && st.Requests > 3 && st.State == daemon.AgentReady && st.Restarts == 0
		}, nil, false},
		{"hangs", func(st daemon.AgentStatus) bool { return st.Restarts >= 2 },
			[]string{"no answer for ", "was stopped, ", "] unanswered for "}, false},
		{"ignores SIGTERM", func(st daemon.AgentStatus) bool { return st.Restarts >= 2 },
			[]string{"no answer for ", "was stopped"}, false},
		{"leaves grandchildren", func(st daemon.AgentStatus) bool { return st.Restarts >= 2 },
			[]string{"exited with status 6"}, true},
		{"chatters", func(st daemon.AgentStatus) bool {
			return st.Requests > 20 && st.State == daemon.AgentReady && st.Restarts == 0
		}, nil, false},
	}
	goroutines := runtime.NumGoroutine()
	fds, _ := peer.FDs(os.Getpid())
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, path(scriptName)); err != nil {
		t.Fatal(err)
	}
	conf := fmt.Sprintf("good 299 pipe binary %s %s good\n", path(scriptName), dir)
	for i, tt := range tests {
		conf += fmt.Sprintf("%q %d pipe binary %s %s %q\n", tt.what, 300+i, path(scriptName), dir, tt.what)
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
	log := zap.New(logging.NewCore(logFile, "text"))
	listeners, err := daemon.Listen(nil, nil, path("sock"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.New(daemon.Config{
		ConfigFile: path("conf"), Namespace: daemon.Namespace{Path: path("pmns")}, LabelDir: dir, RunDir: dir, TmpDir: dir,
		Listeners: listeners, MaxPDU: 64 << 10, MaxContexts: 64, MaxMetrics: 64,
		RequestTimeout: 400 * time.Millisecond, HandshakeTimeout: 20 * time.Second, LateGrace: 1500 * time.Millisecond,
		Open: opener{stderr: logFile, plugins: new(goplugin.Loader), log: log}.open,
		Log:  log,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()

	// One connection for the good agent.
	var stop atomic.Bool
	var good atomic.Int64
	goodEnded := make(chan error, 1)
	f, err := pmcdtest.Dial(path("sock"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for !stop.Load() {
			if v, err := f.Fetch(pdu.NewPMID(299, 0, 1)); err != nil || v != 1 {
				goodEnded <- fmt.Errorf("after %d requests: value %d, %v", good.Load(), v, err)
				return
			}
			good.Add(1)
		}
		goodEnded <- nil
	}()
	agent := func(what string) daemon.AgentStatus {
		all := d.Agents()
		return all[slices.IndexFunc(all, func(st daemon.AgentStatus) bool { return st.Name == what })]
	}
	t.Run("agents", func(t *testing.T) {
		for i, tt := range tests {
			t.Run(tt.what, func(t *testing.T) {
				t.Parallel()
				f, err := pmcdtest.Dial(path("sock"))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Conn.Close()
				var st daemon.AgentStatus
				values := 0
				if !peer.Until(60*time.Second, func() bool {
					if _, err := f.Fetch(pdu.NewPMID(300+i, 0, 1)); err == nil {
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
	f.Conn.Close()

	began := time.Now()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second { // a second or two on an idle machine
		t.Errorf("the end took %v", took)
	}
	if !peer.Until(5*time.Second, func() bool { return len(pmcdtest.WithText(dir)) == 0 }) {
		t.Errorf("processes %v are left", pmcdtest.WithText(dir))
	}
	logFile.Close()
	if !peer.Until(5*time.Second, func() bool {
		now, _ := peer.FDs(os.Getpid())
		return runtime.NumGoroutine() <= goroutines && now <= fds
	}) {
		now, _ := peer.FDs(os.Getpid())
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines before, %d after; %d descriptors before, %d after\n%s",
			goroutines, runtime.NumGoroutine(), fds, now, buf[:runtime.Stack(buf, true)])
	}
	text, err := os.ReadFile(path("log"))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 1<<20 {
		t.Errorf("the log has %d bytes", len(text))
	}
	for _, want := range []string{
		" lines dropped\n", "Auto-restarting agents.\n", "\tend of its stderr:\n\t| it ends here\n", "\nit ends here\n",
		`Cleanup "exits in a fetch" agent (dom 302): protocol failure for fd=`, ", exit(5)\n", ", signal(9)\n",
		`agent "hangs" (dom 305) is late; no answer to FETCH for client[`,
	} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("%q is not in the log", want)
		}
	}
	if t.Failed() {
		chatter := regexp.MustCompile(`(?m)^(chatter )+\n`)
		t.Logf("log:\n%.20000s", chatter.ReplaceAll(text, nil))
	}
}
