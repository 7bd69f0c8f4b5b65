package roothelper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pmcdconf"
)

// Only lines of the configuration file are started.
func TestRefused(t *testing.T) {
	r, list := newHarness(t, "echo 1 pipe binary PROGRAM\nother 2 pipe binary PROGRAM -x\nnothing 3 socket inet 44\n")
	r.wantRefused(list[2], "has changed since pmcd read it")
	evil := list[0]
	evil.Argv = []string{"/bin/sh", "-c", "echo evil"}
	r.wantRefused(evil, "has changed since pmcd read it")
	evil.Domain = 77
	r.wantRefused(evil, "has changed since pmcd read it")
	evil.Domain = 511
	r.wantRefused(evil, "no agent has domain 511")
	must(t, os.Remove(r.conf))
	r.wantRefused(list[1], "no such file")
}

// An agent that users other than root can change is not started as root: neither
// the first time, when the system starts, nor later.
func TestUntrusted(t *testing.T) {
	r, list := newHarness(t, "echo 1 pipe binary PROGRAM\nother 2 pipe binary PROGRAM -x\n")
	dir := filepath.Dir(r.program)
	for _, when := range []string{"the first time", "after it has run"} {
		for _, c := range []struct {
			path         string
			bad, good    os.FileMode
			config       bool
			want, remedy string
		}{
			{r.conf, 0o666, 0o644, true, " is writable by all users", "chmod go-w "},
			{r.program, 0o775, 0o755, false, " is writable by group ", "chmod go-w "},
			{dir, 0o777, 0o755, true, " is writable by all users", "chmod go-w "},
		} {
			must(t, os.Chmod(c.path, c.bad))
			p, err := r.start(list[1])
			var u *Untrusted
			if !errors.As(err, &u) || u.Path != c.path || u.Config != c.config ||
				!strings.Contains(err.Error(), c.path+c.want) || u.Remedy() != c.remedy+c.path {
				t.Errorf("%s, %s with mode %v: got %v (%+v)", when, c.path, c.bad, err, u)
			}
			if err == nil {
				r.stop(p)
			}
			must(t, os.Chmod(c.path, c.good))
		}
		p, err := r.start(list[1])
		must(t, err)
		checkEcho(t, p)
		r.stop(p)
	}
}

// A line from the time when others could change the file is not started after the
// file has been made root's.
func TestReadUntrusted(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "pmcd.conf")
	must(t, os.WriteFile(conf, []byte("evil 1 pipe binary true\n"), 0o644))
	must(t, os.Chmod(conf, 0o666))
	s := &server{cfg: Config{ConfigFile: conf, owner: testOwner}}
	evil := digest(&pmcdconf.Agent{Name: "evil", Domain: 1, Kind: pmcdconf.Pipe, Argv: []string{"true"}})
	if _, _, err := s.lookup(1, evil); !errors.As(err, new(*Untrusted)) {
		t.Errorf("got %v", err)
	}
	must(t, os.WriteFile(conf, []byte("good 1 pipe binary true\n"), 0o644))
	must(t, os.Chmod(conf, 0o644))
	if _, _, err := s.lookup(1, evil); err == nil || !strings.Contains(err.Error(), "has changed since pmcd read it") {
		t.Errorf("got %v", err)
	}
	if a, _, err := s.lookup(1, digest(s.agents[1])); err != nil || a.Name != "good" {
		t.Errorf("got %v, %v", a, err)
	}
}

// While the file system of one agent does not answer, others are started.
func TestLookupHangs(t *testing.T) {
	list := []pmcdconf.Agent{{Name: "hangs", Domain: 1, Kind: pmcdconf.DSO}, {Name: "other", Domain: 2, Kind: pmcdconf.DSO}}
	called, release := make(chan bool), make(chan bool)
	s := &server{cfg: Config{Embedded: list, BuiltIn: func(a *pmcdconf.Agent) bool {
		if a.Name == "hangs" {
			close(called)
			<-release
		}
		return true
	}}}
	ended := make(chan error, 2)
	lookup := func(a *pmcdconf.Agent) {
		_, _, err := s.lookup(a.Domain, digest(a))
		ended <- err
	}
	go lookup(&list[0])
	<-called
	go lookup(&list[1])
	await := func() {
		select {
		case err := <-ended:
			must(t, err)
		case <-time.After(testutil.Hangs):
			t.Error("an agent waits for another one")
		}
	}
	await()
	close(release)
	await()
}

// The helper does not wait for the writer of a FIFO in the place of the file.
func TestConfigIsFIFO(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "pmcd.conf")
	must(t, syscall.Mkfifo(conf, 0o600))
	s := &server{cfg: Config{ConfigFile: conf, owner: testOwner, TrustAll: true}}
	if _, err := s.readConfig(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v", err)
	}
}

// With TrustAll every agent is started, as by C pmcd.
func TestTrustAll(t *testing.T) {
	dir := t.TempDir()
	conf, program := filepath.Join(dir, "pmcd.conf"), writeExecutable(t, filepath.Join(dir, "agent"))
	must(t, os.WriteFile(conf, []byte("a 1 pipe binary "+program+"\n"), 0o644))
	must(t, os.Chmod(conf, 0o666))
	must(t, os.Chmod(program, 0o777))
	parsed, err := pmcdconf.ParseFile(t.Context(), conf, pmcdconf.Options{})
	must(t, err)
	s := &server{cfg: Config{ConfigFile: conf, owner: testOwner, TrustAll: true}}
	if a, program, err := s.lookup(1, digest(&parsed.Agents[0])); err != nil || a.Name != "a" || program != "" {
		t.Errorf("got %v, %q, %v", a, program, err)
	}
}

// A built-in agent is started from the program if the file of its dso line does not
// exist, at the start and later, even if others can change the directory that the
// file would be in. If the file exists, the agent is not the built-in one.
func TestBuiltIn(t *testing.T) {
	dir := t.TempDir()
	conf, so := filepath.Join(dir, "pmcd.conf"), writeExecutable(t, filepath.Join(dir, "there.so"))
	open := filepath.Join(dir, "open")
	must(t, os.Mkdir(open, 0o755))
	must(t, os.Chmod(open, 0o777))
	text := fmt.Sprintf("a 1 dso in_init %s/none.so\nb 2 dso in_init %s\nc 3 dso out_init %s/none.so\nd 4 dso in_init %s/none.so\n",
		dir, so, dir, open)
	must(t, os.WriteFile(conf, []byte(text), 0o644))
	parsed, err := pmcdconf.ParseFile(t.Context(), conf, pmcdconf.Options{})
	must(t, err)
	builtIn := func(a *pmcdconf.Agent) bool {
		_, err := os.Stat(a.Path)
		return a.Entry == "in_init" && errors.Is(err, fs.ErrNotExist)
	}
	for _, cfg := range []Config{
		{ConfigFile: conf, owner: testOwner, BuiltIn: builtIn},
		{Embedded: parsed.Agents, owner: testOwner, BuiltIn: builtIn},
	} {
		s := &server{cfg: cfg}
		for _, when := range []string{"at the start", "later"} {
			for _, want := range []struct {
				domain  int
				program string
				err     string
			}{
				{1, Self, ""},
				{2, "", ""},
				{3, "", "no such file"},
				{4, Self, ""},
			} {
				a, program, err := s.lookup(want.domain, digest(&parsed.Agents[want.domain-1]))
				switch {
				case err != nil && (want.err == "" || !strings.Contains(err.Error(), want.err)):
					t.Errorf("%s, %q, agent %d: %v", when, cfg.ConfigFile, want.domain, err)
				case err == nil && want.err != "", err == nil && (program != want.program || a.Domain != want.domain):
					t.Errorf("%s, %q, agent %d: got agent %d and %q", when, cfg.ConfigFile, want.domain, a.Domain, program)
				}
			}
		}
	}
	// The embedded configuration has no other lines.
	s := &server{cfg: Config{Embedded: parsed.Agents[:1]}}
	if _, _, err := s.lookup(2, digest(&parsed.Agents[1])); err == nil || !strings.Contains(err.Error(), "the embedded configuration has changed") {
		t.Errorf("got %v", err)
	}
}

// A new line is read from the file. When the file has become invalid, the lines that
// it had before are still started.
func TestReRead(t *testing.T) {
	r, _ := newHarness(t, "echo 1 pipe binary PROGRAM\n")
	list := r.configure("echo 1 pipe binary PROGRAM -n\nnew 2 pipe binary PROGRAM\n[access]\ndisallow * : store;\n")
	for _, a := range list {
		p, err := r.start(a)
		must(t, err)
		checkEcho(t, p)
		r.stop(p)
	}
	must(t, os.WriteFile(r.conf, []byte("broken\n"), 0o644))
	_, err := r.start(list[0])
	must(t, err)
	list[0].Argv = []string{"x"}
	r.wantRefused(list[0], "expected domain number")
}
