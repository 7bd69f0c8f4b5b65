package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
)

func TestMain(m *testing.M) { pmcdtest.Main(m, nil) }

// runHere is pmcdctl in this process.
func runHere(args ...string) (code int, stdout, stderr string) {
	var out, err strings.Builder
	code = run(args, &out, &err)
	return code, out.String(), err.String()
}

func TestUsage(t *testing.T) {
	dir := testutil.SharedDir(t)
	t.Setenv("PMCD_SOCKET", filepath.Join(dir, "none"))
	for _, tt := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"--help", 0, "Exit codes: 0 success, and with status all agents are ready", ""},
		{"get --help", 0, "-h, --host HOST", ""},
		{"status --help", 0, "--json", ""},
		{"check-agents -h", 0, "check-agents [flags] [NAME...]", ""},
		{"", 3, "", "no command\ntry: pmcdctl --help\n"},
		{"get", 3, "", "pmcdctl: no metric is named (pmcdctl list shows all there are)\ntry: pmcdctl get --help\n"},
		{"get a[b", 3, "", "\"a[b\": want METRIC or METRIC[INSTANCE], in quotes for the shell\n"},
		{"get a[]", 3, "", "want METRIC or METRIC[INSTANCE]"},
		{"watch a -t 0", 3, "", "at least 10ms are required"},
		{"watch a -s -1", 3, "", "cannot be negative"},
		{"set a", 3, "", "a metric and its new value are required"},
		{"compare -h a", 3, "", "two of -f FILE and -h HOST are required, or one FILE"},
		{"compare -f a -f b -s 0", 3, "", "a number of 1 or more is required"},
		{"snapshot --pid -1", 3, "", "a number of 1 or more is required"},
		{"compare -h a -h b --tolerance 2", 3, "", "a number from 0 to 1, or from 0% to 100%, is required"},
		{"completion csh", 3, "", "invalid argument"},
		{"nonesuch", 3, "", `unknown command "nonesuch"`},
		{"status extra", 3, "", `unknown command "extra"`},
		{"status --nonesuch", 3, "", "unknown flag: --nonesuch"},
		{"check-agents --help", 0, "seconds for an agent to answer (default 5)", ""},
		{"check-agents -q 0", 3, "", `invalid argument "0" for "-q, --start" flag: a positive number of seconds is required` + "\n"},
		{"check-agents -t -1", 3, "", `invalid argument "-1" for "-t, --answer" flag: a positive number of seconds is required` + "\n"},
		{"check-agents -t 5s", 3, "", `invalid argument "5s" for "-t, --answer" flag: a positive number of seconds is required` + "\n"},
		{"status", 2, "", "no pmcd answers: "},
		{"status -s /no/such/x", 2, "", "no pmcd answers: /no/such/x.ctl: no such file or directory (is pmcd running? systemctl status pmcd)\n"},
	} {
		t.Run("pmcdctl "+tt.args, func(t *testing.T) {
			code, stdout, stderr := runHere(strings.Fields(tt.args)...)
			if code != tt.code || !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) || (stderr == "") != (tt.stderr == "") {
				t.Errorf("%s: exit code %d, want %d\n%s\n%s", tt.args, code, tt.code, stdout, stderr)
			}
		})
	}
}

// The first pmcd that answers is asked, whatever is at the sockets before it. If none
// answers, the error is that of a pmcd that may not be asked, if there is one.
func TestAsk(t *testing.T) {
	dir := testutil.SharedDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	listen := func(name string) {
		l, err := net.Listen("unix", at(name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	s, err := ctl.Listen(at("this.ctl"))
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(func() *ctl.Report { return &ctl.Report{PID: 7} })
	t.Cleanup(func() { s.Close() })
	listen("other.socket")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: at("left.ctl")})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	write(t, at("file"), "")
	for _, tt := range []struct{ sockets, want string }{
		{"none left other file/x this", ""},
		{"none", "no pmcd answers: {}none.ctl: no such file or directory (is pmcd running? systemctl status pmcd)"},
		{"none left", "no pmcd answers: {}none.ctl: no such file or directory; {}left.ctl: connection refused (is pmcd running? systemctl status pmcd; -s says where its socket is)"},
		{"none other left", "the pmcd at {}other.socket cannot be asked: there is no {}other.ctl; it is not this pmcd, or its log says why"},
	} {
		var sockets []string
		for name := range strings.FieldsSeq(tt.sockets) {
			sockets = append(sockets, at(name)+".socket")
		}
		r, err := ask(t.Context(), sockets)
		switch {
		case tt.want == "" && (err != nil || r.PID != 7):
			t.Errorf("%s: got %v, %v", tt.sockets, r, err)
		case tt.want != "" && (err == nil || strings.ReplaceAll(err.Error(), dir+"/", "{}") != tt.want):
			t.Errorf("%s: got %v, want %s", tt.sockets, err, tt.want)
		}
	}
}

// daemonPath returns the path of pmcd.
func daemonPath(t *testing.T) string {
	t.Helper()
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A private is a pmcd in a directory of its own.
type private struct {
	t    *testing.T
	dir  string
	sock string
	cmd  *exec.Cmd
}

// startPrivate starts a pmcd and waits until pmcdctl can ask it.
func startPrivate(t *testing.T, dir string, args ...string) *private {
	t.Helper()
	p := &private{t: t, dir: dir, sock: filepath.Join(dir, "pmcd.socket")}
	args = append([]string{"-f", "-s", p.sock, "-l", filepath.Join(dir, "log"), "-i", "127.0.0.1", "-p", "0"}, args...)
	p.cmd = exec.Command(daemonPath(t), args...)
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), "PCP_CONF=/dev/null", "PCP_VAR_DIR="+dir, "PCP_TMP_DIR="+dir, "GORACE=atexit_sleep_ms=0")
	screen, err := os.Create(filepath.Join(dir, "screen"))
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	p.cmd.Stderr = screen
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("pmcd says:\n%s%s", pmcdtest.Read(screen.Name()), pmcdtest.Read(filepath.Join(dir, "log")))
		}
	})
	p.until("it answers", func(r *ctl.Report) bool { return r.PID == p.cmd.Process.Pid })
	return p
}

func (p *private) stop() {
	p.t.Helper()
	if p.cmd.ProcessState != nil {
		return
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("pmcd: %v", err)
	}
}

// until waits for a report that will do, and returns it.
func (p *private) until(what string, done func(*ctl.Report) bool) *ctl.Report {
	p.t.Helper()
	var r ctl.Report
	var stderr string
	if !peer.Until(peer.Hangs, func() bool {
		var code int
		var stdout string
		if code, stdout, stderr = runHere("status", "--json", "-s", p.sock); code == exitNone {
			return false
		}
		r = ctl.Report{}
		if err := json.Unmarshal([]byte(stdout), &r); err != nil {
			p.t.Fatalf("%v\n%s", err, stdout)
		}
		return done(&r)
	}) {
		p.t.Fatalf("not in time: %s\n%s%+v", what, stderr, r)
	}
	return &r
}

// agentOf returns what r has of an agent.
func agentOf(r *ctl.Report, name string) ctl.Agent {
	for _, a := range r.Agents {
		if a.Name == name {
			return a
		}
	}
	return ctl.Agent{}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestStatus(t *testing.T) {
	t.Setenv("PMCD_RESTART_AGENTS", "0") // an agent that has failed stays down
	dir := testutil.SharedDir(t)
	conf, names := filepath.Join(dir, "conf"), filepath.Join(dir, "pmns")
	const good = "pmcd 2 dso pmcd_init /none\n"
	write(t, conf, good)
	write(t, names, "root { pmcd }\npmcd { numclients 2:0:3 }\n")
	p := startPrivate(t, dir, "-c", conf, "-n", names)

	r := p.until("the agent is ready", func(r *ctl.Report) bool { return agentOf(r, "pmcd").State == ctl.Ready })
	if r.Config != conf || r.Namespace != names || r.Embedded || r.UID != os.Geteuid() || r.Version == "" || r.Build == "" ||
		len(r.Listening) != 2 || r.Listening[0] != "unix:"+p.sock || len(r.Clients) != 0 || r.Reloads != (ctl.Reloads{}) {
		t.Errorf("got %+v", r)
	}
	if a := agentOf(r, "pmcd"); a.Domain != 2 || a.Kind != "dso" || a.PID != 0 {
		t.Errorf("got %+v", a)
	}
	if r.Started.IsZero() || r.Now.IsZero() {
		t.Errorf("started at %v, now %v", r.Started, r.Now)
	}

	conn, err := pmcdtest.Greeted(p.sock, testutil.Hangs)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r = p.until("the client is there", func(r *ctl.Report) bool { return len(r.Clients) == 1 })
	if c := r.Clients[0]; c.Number != 0 || c.UID == nil || *c.UID != int64(os.Getuid()) || c.Address != "unix:"+p.sock || c.Since.IsZero() {
		t.Errorf("got %+v", c)
	}
	code, text, _ := runHere("status", "-s", p.sock)
	for _, want := range []string{
		fmt.Sprintf("pmcd %s (as PCP %s), pid %d, user ", r.Build, r.Version, p.cmd.Process.Pid), "configuration: " + conf, "reloads:       none",
		"\npmcd   2       dso   ready ", "\nCLIENT  FOR ", "unix:" + p.sock,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if code != exitOK {
		t.Errorf("exit code %d", code)
	}
	// The other way to name the socket.
	if code, _, _ := runHere("status", "-s", ctl.Path(p.sock)); code != exitOK {
		t.Errorf("exit code %d", code)
	}

	// An agent that cannot be started.
	write(t, conf, good+"none 3 pipe binary /no/such/file\n")
	p.cmd.Process.Signal(syscall.SIGHUP)
	r = p.until("the reload is over", func(r *ctl.Report) bool { return r.Reloads.Count == 1 })
	if a := agentOf(r, "none"); a.State != "down" || r.Reloads.Error != "" || r.Reloads.Last.IsZero() {
		t.Errorf("got %+v, %+v", a, r.Reloads)
	}
	if code, text, _ := runHere("status", "-s", p.sock); code != exitProblems || !strings.Contains(text, "\nnone   3       pipe  down ") {
		t.Errorf("exit code %d\n%s", code, text)
	}
	// It serves nevertheless.
	if code, text, _ := runHere("status", "--ready", "-s", p.sock); code != exitOK || !strings.Contains(text, "listening: unix:"+p.sock) || !strings.Contains(text, "1 of 2 agents ready") {
		t.Errorf("--ready: exit code %d\n%s", code, text)
	}

	// The status has a rejected configuration until there is a valid one.
	write(t, conf, "none\n")
	write(t, names, "root { nonesuch }\n")
	p.cmd.Process.Signal(syscall.SIGHUP)
	r = p.until("the second reload is over", func(r *ctl.Report) bool { return r.Reloads.Count == 2 })
	if e := r.Reloads.Error; !strings.Contains(e, "conf:1:") || !strings.Contains(e, "pmLoadASCIINameSpace("+names+", 1)") || len(r.Agents) != 2 {
		t.Errorf("got %+v", r)
	}
	if _, text, _ := runHere("status", "-s", p.sock); !strings.Contains(text, "\nreloads:       2, the last failed ") || !strings.Contains(text, ": Configuration file") {
		t.Errorf("got\n%s", text)
	}

	p.stop()
	if code, _, _ := runHere("status", "--ready", "-s", p.sock); code != exitNone {
		t.Errorf("--ready without pmcd: exit code %d", code)
	}
	for _, path := range []string{p.sock, ctl.Path(p.sock)} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is left behind", path)
		}
	}
}

// A second pmcd leaves the first one's socket alone; the next one takes the
// place of one that was killed.
func TestStatusOfTwo(t *testing.T) {
	dir := testutil.SharedDir(t)
	p := startPrivate(t, dir, "--embedded")
	r := p.until("all are ready", func(r *ctl.Report) bool {
		for _, a := range r.Agents {
			if a.State != ctl.Ready {
				return false
			}
		}
		return len(r.Agents) > 0
	})
	if !r.Embedded || r.Config != "" || r.Namespace != "" {
		t.Errorf("got %+v", r)
	}
	if _, text, _ := runHere("status", "-s", p.sock); !strings.Contains(text, "configuration: embedded\n") {
		t.Errorf("got\n%s", text)
	}

	second := exec.Command(daemonPath(t), "-f", "--embedded", "-s", p.sock, "-l", filepath.Join(dir, "log2"), "-i", "127.0.0.1", "-p", "0")
	second.Env = p.cmd.Env
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); second.Wait() }()
	// It refuses to start, or serves without this socket.
	peer.Until(peer.Hangs, func() bool {
		return pmcdtest.IsClosed(ended) || strings.Contains(pmcdtest.Read(filepath.Join(dir, "log2")), "status socket unavailable, ")
	})
	for range 5 {
		p.until("the first answers", func(r *ctl.Report) bool { return r.PID == p.cmd.Process.Pid })
	}
	second.Process.Signal(syscall.SIGTERM)
	<-ended
	p.until("the first still answers", func(r *ctl.Report) bool { return r.PID == p.cmd.Process.Pid })

	p.cmd.Process.Kill()
	p.cmd.Wait()
	// An agent that is being started has the descriptor until its exec.
	testutil.Eventually(t, "no process listens any more", func() bool { return !ctl.Listening(ctl.Path(p.sock)) })
	if code, _, stderr := runHere("status", "-s", p.sock); code != exitNone || !strings.Contains(stderr, "connection refused") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	startPrivate(t, dir, "--embedded")
}

// Others than root and pmcd's own user may not ask, whatever the mode of the
// socket.
func TestStatusPermission(t *testing.T) {
	testutil.NeedRoot(t) // to be another user
	pmcdctl, err := peer.Ctl()
	if err != nil {
		t.Fatal(err)
	}
	dir := testutil.SharedDir(t)
	testutil.Run(t, "cp", pmcdctl, dir) // others may not be able to enter the directory of pmcdctl
	pmcdctl = filepath.Join(dir, filepath.Base(pmcdctl))
	p := startPrivate(t, dir, "--embedded")
	as := func(uid uint32) (int, string) {
		cmd := exec.Command(pmcdctl, "status")
		cmd.Env = []string{"GORACE=atexit_sleep_ms=0", "PCP_RUN_DIR=" + dir}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		if err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	const nobody = 65534
	if code, out := as(nobody); code != exitNone || !strings.Contains(out, "permission denied: only root") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if err := os.Chmod(ctl.Path(p.sock), 0o666); err != nil {
		t.Fatal(err)
	}
	if code, out := as(nobody); code != exitNone || !strings.Contains(out, "permission denied: only root") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if code, out := as(0); code == exitNone {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// What a pmcd that ran as root leaves behind does not hinder one that runs as another
// user.
func TestStatusAfterRoot(t *testing.T) {
	testutil.NeedRoot(t) // to become another user
	p := pmcdtest.NewPlace(t, daemonPath(t))
	cmd := p.Command("-f")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	listening := peer.Until(peer.Hangs, func() bool { return ctl.Listening(p.At("run/sock.ctl")) })
	cmd.Process.Kill()
	cmd.Wait()
	// An agent that is being started has the descriptor until its exec.
	ended := peer.Until(peer.Hangs, func() bool { return !ctl.Listening(p.At("run/sock.ctl")) })
	if !listening || !ended {
		t.Fatalf("pmcd listened: %v, and no process listens any more: %v", listening, ended)
	}
	p.Start("-U", "nobody")
	if code, _, stderr := runHere("status", "-s", p.At("run/sock")); code == exitNone {
		t.Errorf("%s%s", stderr, pmcdtest.Read(p.At("log/pmcd.log")))
	}
}

func TestVersion(t *testing.T) {
	want := regexp.MustCompile(`^pmcdctl \d+\.\d+\.\d+(\+git\.[0-9a-f]{12}(\.dirty)?)?, with the behaviour of PCP \d+\.\d+\.\d+\n$`)
	if code, stdout, stderr := runHere("--version"); code != exitOK || !want.MatchString(stdout) || stderr != "" {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

// A signal that was ignored at the start, as with nohup, stays ignored.
func TestIgnoredSignal(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	runHere("--version")
	if !signal.Ignored(syscall.SIGHUP) {
		t.Error("SIGHUP is not ignored any more")
	}
}

// full is an output that cannot be written, as on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// Output that cannot be written is no success.
func TestFullOutput(t *testing.T) {
	dir := testutil.SharedDir(t)
	s, err := ctl.Listen(filepath.Join(dir, "good.ctl"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Serve(func() *ctl.Report { return &ctl.Report{Listening: []string{"unix:/x"}} })
	const before = `{"format": 1, "host": "a", "metrics": [{"name": "a"}]}`
	write(t, filepath.Join(dir, "before"), before)
	for _, args := range []string{
		"status -s {}/good.ctl", "status --json -s {}/good.ctl", "status --ready -s {}/good.ctl", "compare -f {}/before -f {}/before",
		"completion bash",
	} {
		words := strings.Fields(strings.ReplaceAll(args, "{}", dir))
		if code, _, stderr := runHere(words...); code != exitOK {
			t.Errorf("%s: exit code %d\n%s", args, code, stderr)
		}
		var stderr strings.Builder
		if code := run(words, full{}, &stderr); code == exitOK || !strings.Contains(stderr.String(), syscall.ENOSPC.Error()) {
			t.Errorf("%s to a full disk: exit code %d\n%s", args, code, &stderr)
		}
	}
}
