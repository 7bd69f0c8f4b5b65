package systemtest

import (
	"strings"
	"testing"
)

// page runs all commands in the first block of code after a text of docs/installing.md, as
// root in the tree, and returns what they print. The tree is built: a machine has no Go.
func (h *host) page(after string) (text string) {
	h.t.Helper()
	for _, command := range blockAfter(h.t, "docs/installing.md", after) {
		command, _, _ = strings.Cut(command, "#")
		command = strings.NewReplacer("sudo ", "", "make build plugins pmdas && ", "", "make build plugins pmdas", "true").Replace(command)
		text += h.run("export MAKEFLAGS='PLUGINS= PMDAS=' && cd " + tree + " && " + command)
	}
	return text
}

// The commands of docs/installing.md for hosts without PCP work, in its order.
func TestInstallingPage(t *testing.T) {
	h := boot(t, here.without)
	h.page("\n## From source\n")
	for _, step := range []struct{ after, socket string }{
		{"\n## Without PCP\n", "active"},
		{"disable the socket unit:\n", "inactive"},
		{"So to let systemd listen then, stop pmcd first:\n", "active"},
		{"\n## Upgrading\n", "active"},
	} {
		h.page(step.after)
		h.check("pmcdctl status", "user pcp", "127.0.0.1:44321")
		if got := h.show("pmcd.socket", "ActiveState"); got != step.socket {
			t.Errorf("after %q the socket unit is %s, want %s", step.after, got, step.socket)
		}
		h.fetch()
	}
	h.page("\n## Removing\n")
	if text := h.run("pgrep -l pmcd; systemctl list-units --no-legend --all 'pmcd*' | grep -v not-found || :"); text != "" {
		t.Errorf("left:\n%s", text)
	}
}

// The same for hosts with PCP.
func TestInstallingPagePCP(t *testing.T) {
	h := boot(t, here.with)
	h.page("\n## From source\n")
	if text := h.page("\n## With PCP\n"); !strings.Contains(text, "is this pmcd") {
		t.Errorf("swap-pmcd status: %s", text)
	}
	h.check("pmcdctl status", "user pcp")
	h.page("\n## Removing\n")
	h.run("systemctl restart pmcd")
	if text, code := h.Try("pmcdctl status"); code == 0 {
		t.Errorf("PCP's pmcd has no status, but: %s", text)
	}
	h.fetch()
}
