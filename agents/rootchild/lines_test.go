package rootchild

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pmcdconf"
)

// What is started has been read from the file, and only root can have changed
// that and the program since.
func TestRefused(t *testing.T) {
	r, list := newRig(t, "echo 1 pipe binary PROGRAM\nother 2 pipe binary PROGRAM -x\nnothing 3 socket inet 44\n")
	r.refused(list[2], "has another line")
	evil := list[0]
	evil.Argv = []string{"/bin/sh", "-c", "echo evil"}
	r.refused(evil, "has another line for this agent")
	evil.Domain = 77
	r.refused(evil, "has another line for this agent")
	evil.Domain = 511
	r.refused(evil, "no agent has domain 511")

	// At the start of the system, once, as C pmcd.
	do(t, os.Chmod(r.conf, 0o666))
	r.refused(list[1], "pmcd.conf can be written to by others") // it was read again above
	do(t, os.Chmod(r.conf, 0o644))
	_, err := r.start(list[1])
	do(t, err)

	do(t, os.Chmod(r.program, 0o777))
	r.refused(list[1], "agent can be written to by others")
	do(t, os.Chmod(r.program, 0o755))
	do(t, os.Chmod(filepath.Dir(r.program), 0o777))
	r.refused(list[1], "can be written to by others")
	do(t, os.Chmod(filepath.Dir(r.program), 0o755))
	_, err = r.start(list[1])
	do(t, err)
	do(t, os.Remove(r.conf))
	r.refused(list[1], "no such file")
}

func TestBoot(t *testing.T) {
	r, list := newRig(t, "echo 1 pipe binary PROGRAM\n")
	do(t, os.Chmod(r.conf, 0o666))
	do(t, os.Chmod(r.program, 0o777))
	p, err := r.start(list[0])
	do(t, err)
	echoes(t, p)
	r.refused(list[0], "pmcd.conf can be written to by others")
	do(t, os.Chmod(r.conf, 0o644))
	r.refused(list[0], "agent can be written to by others")
}

// What the file had when others could change it is not started because they
// cannot any more.
func TestReadUntrusted(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "pmcd.conf")
	do(t, os.WriteFile(conf, []byte("evil 1 pipe binary true\n"), 0o644))
	do(t, os.Chmod(conf, 0o666))
	s := &server{cfg: Config{ConfigFile: conf, owner: me}, boot: time.Now()} // the minute is over
	var err error
	s.lines, err = s.read(true)
	do(t, err)
	evil := digest(&s.lines[1].agent)
	if _, _, err := s.line(1, evil); err == nil || !strings.Contains(err.Error(), "can be written to by others") {
		t.Errorf("got %v", err)
	}
	do(t, os.WriteFile(conf, []byte("good 1 pipe binary true\n"), 0o644))
	do(t, os.Chmod(conf, 0o644))
	if _, _, err := s.line(1, evil); err == nil || !strings.Contains(err.Error(), "has another line") {
		t.Errorf("got %v", err)
	}
	if a, _, err := s.line(1, digest(&s.lines[1].agent)); err != nil || a.Name != "good" {
		t.Errorf("got %v, %v", a, err)
	}
}

// An agent that is part of the program is started as that if the file of its dso
// line does not exist, at the start and after it, and whoever could change the
// place where the file would be. What has a file is not.
func TestBuiltIn(t *testing.T) {
	dir := t.TempDir()
	conf, so := filepath.Join(dir, "pmcd.conf"), file(t, filepath.Join(dir, "there.so"))
	open := filepath.Join(dir, "open")
	do(t, os.Mkdir(open, 0o755))
	do(t, os.Chmod(open, 0o777))
	text := fmt.Sprintf("a 1 dso in_init %s/none.so\nb 2 dso in_init %s\nc 3 dso out_init %s/none.so\nd 4 dso in_init %s/none.so\n",
		dir, so, dir, open)
	do(t, os.WriteFile(conf, []byte(text), 0o644))
	parsed, err := pmcdconf.ParseFile(conf, pmcdconf.Options{})
	do(t, err)
	builtIn := func(entry string) bool { return entry == "in_init" }
	for _, cfg := range []Config{
		{ConfigFile: conf, owner: me, BuiltIn: builtIn},
		{Embedded: parsed.Agents, owner: me, BuiltIn: builtIn},
	} {
		s := &server{cfg: cfg, boot: time.Now().Add(time.Hour)}
		s.lines, err = s.read(true)
		do(t, err)
		for _, when := range []string{"at the start", "later"} {
			for _, want := range []struct {
				domain  int
				program string
				err     string // later
			}{
				{1, Self, ""},
				{2, "", ""},
				{3, "", "no such file"},
				{4, Self, ""},
			} {
				a, program, err := s.line(want.domain, digest(&parsed.Agents[want.domain-1]))
				switch {
				case err != nil && (when == "at the start" || want.err == "" || !strings.Contains(err.Error(), want.err)):
					t.Errorf("%s, %q, agent %d: %v", when, cfg.ConfigFile, want.domain, err)
				case err == nil && (program != want.program || a.Domain != want.domain):
					t.Errorf("%s, %q, agent %d: got agent %d and %q", when, cfg.ConfigFile, want.domain, a.Domain, program)
				}
			}
		}
	}
	// What is compiled in has no other lines.
	s := &server{cfg: Config{Embedded: parsed.Agents[:1]}}
	s.lines, err = s.read(true)
	do(t, err)
	if _, _, err := s.line(2, digest(&parsed.Agents[1])); err == nil || !strings.Contains(err.Error(), "what is compiled in has another line") {
		t.Errorf("got %v", err)
	}
}

// A line that is new is found in the file, and what a rejected file had before
// goes on to be started.
func TestReRead(t *testing.T) {
	r, _ := newRig(t, "echo 1 pipe binary PROGRAM\n")
	list := r.configure("echo 1 pipe binary PROGRAM -n\nnew 2 pipe binary PROGRAM\n[access]\ndisallow * : store;\n")
	for _, a := range list {
		p, err := r.start(a)
		do(t, err)
		echoes(t, p)
		r.stop(p)
	}
	do(t, os.WriteFile(r.conf, []byte("broken\n"), 0o644))
	_, err := r.start(list[0])
	do(t, err)
	list[0].Argv = []string{"x"}
	r.refused(list[0], "expected domain number")
}
