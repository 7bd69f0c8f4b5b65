package checkagents

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
)

func TestMain(m *testing.M) { pmcdtest.Main(m, nil) }

// runHere is pmcd --check-agents in this process.
func runHere(args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	opt, err := cli.Parse(append([]string{"--check-agents"}, args...))
	if err == nil {
		err = opt.Complete(os.Getenv)
	}
	code = Run(opt, err, &out, &errs)
	return code, out.String(), errs.String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// Each agent is tried, whatever becomes of the others, and none is left.
func TestCheckAgents(t *testing.T) {
	dir := testutil.SharedDir(t) // for names of sockets
	program := filepath.Join(dir, "tried")
	if out, err := exec.Command("go", "build", "-o", program, "./testdata/tried").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	busy, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	busyPort := busy.Addr().(*net.TCPAddr).Port
	busyPath := filepath.Join(dir, "busy")
	busyUnix, err := net.Listen("unix", busyPath)
	if err != nil {
		t.Fatal(err)
	}
	defer busyUnix.Close()
	free, err := peer.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	var conf, names, root strings.Builder
	late := []string{"hangs", "notready", "stuck", "deaf", "garbage"} // each takes all the time that it has
	var others []string
	want := make(map[string]string) // of each agent, the pattern of its line
	for i, tt := range []struct{ name, line, result string }{
		{"pmcd", "dso pmcd_init /none", `dso +- +- +- +not started: it is part of pmcd`},
		{"builtin", "dso simple_init /none", `dso +\S+s +\S+s +\S+s +ok: builtin.x has 3 values`},
		{"good", "pipe binary {} good", `pipe +\S+s +\S+s +\S+s +ok: good.x has 1 value`},
		{"stays", "pipe binary {} stays", `pipe +\S+s +\S+s +\S+s +ok: stays.x has 1 value`},
		{"absent", "pipe binary {} absent", `pipe +\S+s +\S+s +\S+s +ok: absent.x: metric not supported by this version of the application`},
		{"nameless", "pipe binary {} good", `pipe +\S+s +- +- +started: the name space has no metric of its domain`},
		{"unknown", "pipe binary {} unknown", `pipe +\S+s +- +- +FAILED: descriptor of unknown.x: no metric of that identifier`},
		{"other", "pipe binary {} other", `pipe +\S+s +\S+s +\S+s +FAILED: fetch of other.x: the reply is for another metric`},
		{"stuck", "pipe binary {} stuck", `pipe +\S+s +\S+s +- +FAILED: fetch of stuck.x: agent has not answered in time`},
		{"ends", "pipe binary {} ends", `pipe +\S+s +\S+s +- +FAILED: fetch of ends.x: .*`},
		{"hangs", "pipe binary {} hangs", `pipe +- +- +- +FAILED: start: cannot negotiate with the agent: no answer in 15 s \(-q\), so pmcd closed the connection`},
		{"dies", "pipe binary {} dies", `pipe +- +- +- +FAILED: start: .*exited with status 3.*`},
		{"floods", "pipe binary {} floods", `pipe +- +- +- +FAILED: start: .*exited with status 5.*`},
		{"garbage", "pipe binary {} garbage", `pipe +- +- +- +FAILED: start: .*`},
		{"logs", "pipe binary {} logs", `pipe +- +- +- +FAILED: start: .*exited with status 6.*`},
		{"missing", "pipe binary /no/such/file", `pipe +- +- +- +FAILED: start: error starting /no/such/file: .*no such file.*`},
		{"notready", "pipe binary notready {} good", `pipe +- +- +- +FAILED: start: it has not reported within [0-9.]+s \(-q\) that it is ready`},
		{"unix", "socket unix {dir}/sock {} listens unix {dir}/sock", `socket +\S+s +\S+s +\S+s +ok: unix.x has 1 value`},
		{"inet", fmt.Sprintf("socket inet %d {} listens tcp 127.0.0.1:%[1]d", free), `socket +\S+s +\S+s +\S+s +ok: inet.x has 1 value`},
		{"deaf", "socket unix {dir}/deaf {} good", `socket +- +- +- +FAILED: start: .*`},
		{"gone", "socket unix {dir}/gone", `socket +- +- +- +FAILED: start: .*no such file.*`},
		{"busy", fmt.Sprintf("socket inet %d {} dies", busyPort), fmt.Sprintf(`socket +- +- +- +not started: port %d is in use`, busyPort)},
		{"busytrace", "dso trace_init /none", `dso +- +- +- +not started: its port is in use`},
		{"busyunix", "socket unix {dir}/busy {} dies", `socket +- +- +- +not started: ` + regexp.QuoteMeta(busyPath) + ` is in use`},
	} {
		domain := 100 + i
		line := strings.NewReplacer("{}", program, "{dir}", dir).Replace(tt.line)
		fmt.Fprintf(&conf, "%s %d %s\n", tt.name, domain, line)
		if tt.name != "nameless" {
			fmt.Fprintf(&names, "%s { x %d:0:1 }\n", tt.name, domain)
			fmt.Fprintln(&root, tt.name)
		}
		if !slices.Contains(late, tt.name) {
			others = append(others, tt.name)
		}
		want[tt.name] = fmt.Sprintf(`(?m)^%s +%d +%s$`, tt.name, domain, tt.result)
	}
	write(t, filepath.Join(dir, "conf"), conf.String())
	write(t, filepath.Join(dir, "pmns"), "root {\n"+root.String()+"}\n"+names.String())
	t.Setenv("PCP_CONF", "/dev/null")
	t.Setenv("PCP_TRACE_PORT", fmt.Sprint(busyPort))
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	temp := filepath.Join(dir, "temp")
	if err := os.Mkdir(temp, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	was, _ := os.Getwd()
	fds, _ := peer.FDs(os.Getpid())

	var stdout string
	for seconds, names := range map[string][]string{"15": late, "60": others} {
		code, out, stderr := runHere(append([]string{"-q", seconds, "-t", seconds,
			"-c", filepath.Join(dir, "conf"), "-n", filepath.Join(dir, "pmns")}, names...)...)
		if code != exitProblems {
			t.Errorf("exit code %d\n%s", code, stderr)
		}
		stdout += out
	}
	for name, w := range want {
		t.Run(name, func(t *testing.T) {
			if !regexp.MustCompile(w).MatchString(stdout) {
				t.Errorf("nothing matches %s", w)
			}
		})
	}
	for _, w := range []string{
		"\nthe last output of dies:\n    no such device\n",
		"\nthe last output of hangs:\n    waiting for something\n",
		"\nthe last output of ends:\n    out of order\n",
		"xxx\n    \\x1b[2Jenough\n",
		"\nthe last output of logs:\n    to the log\n",
	} {
		if !strings.Contains(stdout, w) {
			t.Errorf("no %q", w)
		}
	}
	if len(stdout) > 10000 {
		t.Errorf("%d bytes of output", len(stdout))
	}
	if t.Failed() {
		t.Logf("%s", stdout)
	}
	var pids []int
	if !peer.Until(peer.Hangs, func() bool { pids = pmcdtest.Running(program); return len(pids) == 0 }) {
		t.Errorf("left behind: %d", pids)
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Lstat(filepath.Join(dir, "sock")); err == nil {
		t.Error("a socket is left behind")
	}
	if now, _ := os.Getwd(); now != was {
		t.Errorf("now in %s", now)
	}
	if !peer.Until(testutil.Hangs, func() bool { n, _ := peer.FDs(os.Getpid()); return n <= fds }) {
		n, _ := peer.FDs(os.Getpid())
		t.Errorf("%d descriptors, %d before", n, fds)
	}

	// Those that are named.
	for _, tt := range []struct {
		names string
		code  int
		lines int
	}{{"good", 0, 2}, {"good pmcd busy", 0, 4}, {"good dies", 1, 6}, {"good nonesuch", 2, 0}} {
		args := append([]string{"-q", "60", "-t", "60", "-c", filepath.Join(dir, "conf"), "-n", filepath.Join(dir, "pmns")}, strings.Fields(tt.names)...)
		code, stdout, stderr := runHere(args...)
		if code != tt.code || strings.Count(stdout, "\n") != tt.lines {
			t.Errorf("%s: exit code %d\n%s%s", tt.names, code, stdout, stderr)
		}
	}
}

// Root runs check-agents, and others may be able to change the name space. No command is executed.
func TestCheckWithCommand(t *testing.T) {
	dir := t.TempDir()
	conf, names, made := filepath.Join(dir, "conf"), filepath.Join(dir, "pmns"), filepath.Join(dir, "made")
	write(t, conf, "pmcd 2 dso pmcd_init /none\n")
	write(t, names, "root { a }\na { b 2:0:0 }\n#shell 'touch "+made+"'\n")
	code, _, stderr := runHere("-c", conf, "-n", names)
	if _, err := os.Stat(made); err == nil || code != 2 || !strings.Contains(stderr, names+":3: ") || !strings.Contains(stderr, "commands are not allowed") {
		t.Errorf("exit code %d, stat: %v\n%s", code, err, stderr)
	}
}

// What built-in agents log has the form of PCP's logs, and values for the names in braces.
func TestCheckAgentsLog(t *testing.T) {
	testutil.NeedRoot(t) // only as root does the agent have a socket
	dir := t.TempDir()
	write(t, filepath.Join(dir, "pmcd"), "") // where the directory of the socket would be
	write(t, filepath.Join(dir, "conf"), "root 1 dso root_init /none\n")
	write(t, filepath.Join(dir, "pmns"), "root { pmcd }\npmcd { numclients 2:0:3 }\n")
	t.Setenv("PCP_CONF", "/dev/null")
	t.Setenv("PCP_VAR_DIR", dir)
	_, _, stderr := runHere("-q", "60", "-c", filepath.Join(dir, "conf"), "-n", filepath.Join(dir, "pmns"))
	want := regexp.MustCompile(`(?m)^\[.*\] checkagents\.test\(\d+\) Warning: root: agents cannot ask this agent about containers: .*not a directory$`)
	if !want.MatchString(stderr) {
		t.Errorf("nothing matches %s in\n%s", want, stderr)
	}
}

// JSON has the results of the same trials.
func TestCheckAgentsJSON(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "conf"), "builtin 100 dso simple_init /none\nmissing 101 pipe binary /no/such/file\n")
	write(t, filepath.Join(dir, "pmns"), "root { builtin missing }\nbuiltin { x 100:0:1 }\nmissing { x 101:0:0 }\n")
	t.Setenv("PCP_CONF", filepath.Join(dir, "pcp.conf"))
	write(t, filepath.Join(dir, "pcp.conf"), "")
	code, stdout, stderr := runHere("--json", "-q", "60", "-t", "60", "-c", filepath.Join(dir, "conf"), "-n", filepath.Join(dir, "pmns"))
	var got struct {
		Agents []struct {
			Name, Kind, Note, Error string
			Domain                  int
			OK                      bool
			Start                   int64 `json:"start_us"`
		}
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitProblems || len(got.Agents) != 2 {
		t.Fatalf("exit code %d, %v\n%s\n%s", code, err, stdout, stderr)
	}
	good, bad := got.Agents[0], got.Agents[1]
	if good.Name != "builtin" || good.Domain != 100 || good.Kind != "dso" || !good.OK || good.Error != "" || good.Note == "" {
		t.Errorf("%+v", good)
	}
	if bad.Name != "missing" || bad.OK || !strings.Contains(bad.Error, "no such file") || bad.Start != 0 {
		t.Errorf("%+v", bad)
	}
}

// What keeps agents from being checked has exit code 2.
func TestCheckNothing(t *testing.T) {
	dir := testutil.WriteFiles(t, map[string]string{"conf": "pmcd 2 dso pmcd_init builtin\n", "pmns": "root { a }\na { b 2:0:0 }\n"})
	conf, pmns := filepath.Join(dir, "conf"), filepath.Join(dir, "pmns")
	t.Setenv("PCP_CONF", "/dev/null")
	for _, tt := range []struct{ args, want string }{
		{"-n " + pmns + " -c /no/such/conf", "cannot read the configuration: open /no/such/conf: no such file or directory\n"},
		{"-c " + conf, "no name space: neither -n nor pcp.conf names one: "},
		{"--embedded nonesuch", "there is no agent \"nonesuch\" in the embedded configuration\n"},
		{"-n " + pmns + " -c " + conf + " nonesuch", "there is no agent \"nonesuch\" in " + conf + "\n"},
		{"-n " + pmns + " -c /dev/null", "there are no agents in /dev/null\n"},
	} {
		code, stdout, stderr := runHere(strings.Fields(tt.args)...)
		if code != exitNone || stdout != "" || !strings.HasPrefix(stderr, "checkagents.test: ") || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit code %d, want %q\n%s%s", tt.args, code, tt.want, stdout, stderr)
		}
	}
}

// full is an output that cannot be written, as on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// Results that cannot be printed are no success.
func TestCheckFullOutput(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		var stderr strings.Builder
		opt := &cli.Options{Embedded: true, CheckNames: []string{"pmcd"}, JSON: asJSON}
		if code := Run(opt, nil, full{}, &stderr); code != exitProblems || !strings.Contains(stderr.String(), syscall.ENOSPC.Error()) {
			t.Errorf("exit code %d\n%s", code, &stderr)
		}
	}
}
