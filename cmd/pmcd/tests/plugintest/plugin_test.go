//go:build !race

package plugintest

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// A build is a directory and the command that makes a program or plugin there;
// {out} stands for its path.
type build struct{ dir, command string }

// In workspaces there is no -mod=mod.
var (
	checkout        = build{"", "go build -o {out} ./cmd/pmcd"}
	checkoutTrimmed = build{"", "go build -trimpath -o {out} ./cmd/pmcd"}
	checkoutNoCgo   = build{"", "CGO_ENABLED=0 go build -o {out} ./cmd/pmcd"}
	released        = build{"", "GOBIN={out}.d go install " + module + "/cmd/pmcd@v1.0.0"}
	releasedTrimmed = build{"", "GOBIN={out}.d go install -trimpath " + module + "/cmd/pmcd@v1.0.0"}

	replaced        = build{"replace", "go build -mod=mod -buildmode=plugin -o {out} ./plugin"}
	replacedTrimmed = build{"replace", "go build -mod=mod -buildmode=plugin -trimpath -o {out} ./plugin"}
	replacedLinked  = build{"replace", "go build -mod=mod -buildmode=plugin -ldflags=-s -o {out} ./plugin"}
	replacedTags    = build{"replace", "go build -mod=mod -buildmode=plugin -tags=a,b -o {out} ./plugin"}
	replacedProgram = build{"replace", "go build -mod=mod -o {out} ./pmdamyapp"}
	work            = build{"work/myapp", "GOWORK= go build -buildmode=plugin -o {out} ./plugin"}
	workTrimmed     = build{"work/myapp", "GOWORK= go build -buildmode=plugin -trimpath -o {out} ./plugin"}
	v100            = build{"v1.0.0", "go build -mod=mod -buildmode=plugin -o {out} ./plugin"}
	v100Trimmed     = build{"v1.0.0", "go build -mod=mod -buildmode=plugin -trimpath -o {out} ./plugin"}
	v100Other       = build{"v1.0.0", "go build -mod=mod -buildmode=plugin -o {out} ./other"}
	v110            = build{"v1.1.0", "go build -mod=mod -buildmode=plugin -o {out} ./plugin"}
	multierr        = build{"multierr", "go build -mod=mod -buildmode=plugin -o {out} ./other"}
)

// staticBuild begins what a pmcd without cgo says in its log and to --version.
const staticBuild = "this is a static build, without cgo: agents cannot be Go plugins or shared objects in C"

// TestOutside has a row for each claim in docs/plugins.md about how to build,
// and for the messages that are about that.
func TestOutside(t *testing.T) {
	const differs = `plugin was built with a different version of package ` + module + `/(agents|internal/pduformat|pdu): `
	m := newModules(t)
	made := make(map[build]string)
	for _, tt := range []struct {
		name         string
		pmcd, plugin build
		want         string // "" loads
	}{
		{"a program on pipes", checkout, replacedProgram, ""},
		{"a program on pipes, pmcd without cgo", checkoutNoCgo, replacedProgram, ""},
		{"replace", checkout, replaced, ""},
		{"other -ldflags", checkout, replacedLinked, ""},
		{"workspace", checkout, work, ""},
		{"workspace, -trimpath", checkoutTrimmed, workTrimmed, ""},
		{"one version", released, v100, ""},
		{"one version, -trimpath", releasedTrimmed, v100Trimmed, ""},
		{"one version of another module", released, v100Other, ""},

		{"replace, -trimpath", checkoutTrimmed, replacedTrimmed, differs + `the plugin has it from ` + module + ` v0\.0\.0 \(replaced by .* from a directory\), pmcd from ` + module + ` from a directory; see docs/plugins\.md$`},
		{"-trimpath here", checkoutTrimmed, replaced, `is built with no -trimpath, pmcd with -trimpath=true$`},
		{"-trimpath there", checkout, replacedTrimmed, `is built with -trimpath=true, pmcd with no -trimpath$`},
		{"-tags there", checkout, replacedTags, `is built with -tags=a,b, pmcd with no -tags$`},
		{"no cgo here", checkoutNoCgo, replaced, `plugin: not implemented$`},
		{"a version for a checkout", checkout, v100, differs + `the plugin has it from ` + module + ` v1\.0\.0, pmcd from ` + module + ` from a directory; see docs/plugins\.md$`},
		{"a checkout for a version", released, replaced, differs + `the plugin has it from ` + module + ` v0\.0\.0 \(replaced by .* from a directory\), pmcd from ` + module + ` v1\.0\.0; see docs/plugins\.md$`},
		{"another version", released, v110, differs + `the plugin has it from ` + module + ` v1\.1\.0, pmcd from ` + module + ` v1\.0\.0; see docs/plugins\.md$`},
		{"another version of another module", released, multierr, `different version of package go\.uber\.org/multierr: the plugin has it from go\.uber\.org/multierr v1\.99\.0, pmcd from go\.uber\.org/multierr v1\.\d+\.\d+; see docs/plugins\.md$`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if commands := tt.pmcd.command + tt.plugin.command; os.Getenv("PMCD_LONG") == "" &&
				(strings.Contains(commands, "-trimpath") || strings.Contains(commands, "CGO_ENABLED")) {
				t.Skip("compiles all once more: make releasetest")
			}
			line := "myapp 400 dso myapp_init " + m.make(t, made, tt.plugin)
			if tt.plugin == replacedProgram {
				line = "myapp 400 pipe binary " + m.make(t, made, tt.plugin)
			}
			value, log := runPmcd(t, m.make(t, made, tt.pmcd), line)
			if logged := strings.Contains(log, staticBuild); logged != (tt.pmcd == checkoutNoCgo) {
				t.Errorf("the log says that it is a static build: %v\n%s", logged, log)
			}
			_, said, _ := strings.Cut(log, `cannot start "myapp" agent (dom 400): `)
			said, _, _ = strings.Cut(said, "\n")
			said = strings.TrimSuffix(said, "; it is started again at SIGHUP (PMCD_RESTART_AGENTS=0)")
			switch loaded := value == 42; {
			case loaded != (tt.want == ""):
				t.Errorf("loaded is %v:\n%s", loaded, log)
			case !regexp.MustCompile(tt.want).MatchString(said):
				t.Errorf("got  %s\nwant %s", said, tt.want)
			}
		})
	}
}

// make builds b, unless that was done before.
func (m *modules) make(t *testing.T, made map[build]string, b build) string {
	t.Helper()
	if made[b] == "" {
		out := m.path("out" + string(rune('a'+len(made))))
		m.command(t, b.dir, strings.Fields(strings.ReplaceAll(b.command, "{out}", out))...)
		if strings.Contains(b.command, "{out}.d") {
			out += ".d/pmcd"
		}
		made[b] = out
	}
	return made[b]
}

// runPmcd runs pmcd with one agent and returns the value of metric 400.0.1, or
// a negative error, and the log.
func runPmcd(t *testing.T, path, line string) (value int32, log string) {
	t.Helper()
	dir := testutil.SharedDir(t) // the name of the socket has to be short
	for name, text := range map[string]string{"conf": line + "\n", "pmns": "root { myapp }\nmyapp { one 400:0:1 }\n"} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(path, "-f", "-q", "60", "-t", "60", "-c", "conf", "-n", "pmns", "-s", "sock", "-l", "log", "-i", "127.0.0.1", "-p", "0")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PCP_CONF=/dev/null", "PMCD_ROOT_AGENT=0", "PMCD_LOCAL=1", "PMCD_RESTART_AGENTS=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("pmcd: %v", err)
			}
		case <-time.After(testutil.Hangs):
			cmd.Process.Kill()
			t.Errorf("pmcd does not end: %v", <-ended)
		}
		b, _ := os.ReadFile(dir + "/log")
		log = string(b)
	}()
	c, err := pmcdtest.Connect(dir + "/sock")
	for deadline := time.Now().Add(testutil.Hangs); err != nil && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		c, err = pmcdtest.Connect(dir + "/sock")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return fetch(t, c), ""
}

// fetch returns the value of metric 400.0.1, or the error in place of it.
func fetch(t *testing.T, c *pmapi.Client) int32 {
	t.Helper()
	v, err := pmcdtest.Value(c, pdu.NewPMID(400, 0, 1))
	if e := pdu.Errno(0); errors.As(err, &e) {
		return int32(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	return int32(v)
}
