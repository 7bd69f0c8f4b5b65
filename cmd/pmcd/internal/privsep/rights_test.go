package privsep

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/pmcdconf"
)

// The problem with the configuration file is what the root helper has found at its last start of an
// agent. Problems does not examine the file, whose file system may hang.
func TestProblemsOfLastStart(t *testing.T) {
	a := &pmcdconf.Agent{Name: "a", Domain: 240}
	config := &roothelper.Untrusted{Path: "/conf", Config: true}
	r := &Rights{
		TrustCheck: TrustCheck{config: filepath.Join(t.TempDir(), "none"), user: "pcp"},
		log:        slog.New(slog.DiscardHandler), agents: make(map[int]string),
	}
	const all = "all agents run as pcp: /conf is writable by all users"
	for _, step := range []struct {
		name          string
		do            func()
		problem, note string // "" is none
	}{
		{"at first", func() {}, "", ""},
		{"others can change pmcd.conf", func() { r.Reduced(a, config, "") }, all, ""},
		{"an agent that is part of pmcd", func() { r.Full(&pmcdconf.Agent{Domain: 241}) }, all, ""},
		{"only root can", func() { r.Started(&pmcdconf.Agent{Domain: 242}) }, "", "runs as pcp: /conf is writable by all users"},
		{"again others can", func() { r.Reduced(a, config, "") }, all, ""},
		{"others can change the agent only", func() { r.Reduced(a, &roothelper.Untrusted{Path: "/agent"}, "") },
			"", "runs as pcp: /agent is writable by all users"},
		{"it has all its rights", func() { r.Started(a) }, "", ""},
	} {
		step.do()
		problem, note := strings.Join(r.Problems(), "\n"), r.Note(a.Domain)
		if problem != step.problem || note != step.note {
			t.Errorf("%s: the problem is %q, want %q; the note is %q, want %q", step.name, problem, step.problem, note, step.note)
		}
	}
}
