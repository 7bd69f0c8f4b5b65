package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// shells are shells without anybody's configuration. In args and start, which is what the file
// that the shell reads at its start has, {dir} is the directory of the test.
var shells = []struct{ name, args, file, start string }{
	{"bash", "--noprofile --rcfile {dir}/bashrc -i", "bashrc", `PS1='> '
BASH_COMPLETION_USER_DIR={dir}
. /usr/share/bash-completion/bash_completion
bind 'set show-all-if-ambiguous on'
`},
	{"zsh", "-d", ".zshrc", `PS1='> '
fpath=({dir}/completions $fpath)
autoload -Uz compinit && compinit -u -D
`},
	{"fish", "", "fish/config.fish", `function fish_prompt; printf '> '; end
function fish_right_prompt; end
set fish_greeting
set fish_complete_path {dir}/completions
set fish_autosuggestion_enabled 0
`},
}

// TestCompletionInShells presses the tab key in each shell, with the completion where the
// shell looks for it.
func TestCompletionInShells(t *testing.T) {
	d := startPmcd(t, "")
	ctl, err := peer.Ctl()
	if err != nil {
		t.Fatal(err)
	}
	for _, sh := range shells {
		t.Run(sh.name, func(t *testing.T) {
			p := startShell(t, sh.name, sh.args, sh.file, sh.start, []string{
				"PATH=" + filepath.Dir(ctl) + ":/usr/bin:/bin", "PMCD_SOCKET=" + d.Sock, "PCP_CONF=/dev/null", "GORACE=atexit_sleep_ms=0"})
			for _, tt := range []struct{ name, keys, want string }{
				// What follows a tab shows whether the shell has added a blank.
				{"subcommand", "pmcdctl desc\tx", `(?m)^> pmcdctl describe x$`},
				{"subcommands", "pmcdctl c\t", `(?s)\bcheck-agents .*\bcompare .*\bcompletion `},
				{"name", "pmcdctl get simple.c\tx", `(?m)^> pmcdctl get simple\.color x$`},
				{"names", "pmcdctl get simple.n\t", `(?m)^simple\.(now +simple\.numfetch|numfetch +simple\.now)$`},
				{"second name", "pmcdctl get simple.now simple.c\tx", `(?m)^> pmcdctl get simple\.now simple\.color x$`},
				{"nested name", "pmcdctl watch simple.ti\tu\tx", `(?m)^> pmcdctl watch simple\.time\.user x$`},
				{"name of a host", "pmcdctl get -h unix:" + d.Sock + " simple.c\tx", `(?m) simple\.color x$`},
				{"name of another host", "pmcdctl get -h unix:/none simple.c\tx", `(?m)^> pmcdctl get -h unix:/none simple\.c ?x$`},
				{"option", "pmcdctl watch --sam\tx", `(?m)^> pmcdctl watch --samples x$`},
				{"options", "pmcdctl watch --\t", `--samples +(-- |\()number of samples; 0 is no`},
				{"argument", "pmcdctl completion z\tx", `(?m)^> pmcdctl completion zsh x$`},
			} {
				t.Run(tt.name, func(t *testing.T) { p.expect(t, tt.keys, regexp.MustCompile(tt.want)) })
			}
		})
	}
}

// A pane is a shell on a terminal of tmux.
type pane struct {
	sock string
}

// startShell starts a shell until the end of the test.
func startShell(t *testing.T, shell, args, file, start string, env []string) *pane {
	t.Helper()
	testutil.NeedProgram(t, "tmux")
	path := testutil.NeedProgram(t, shell)
	if shell == "bash" {
		testutil.NeedPeer(t, "/usr/share/bash-completion/bash_completion")
	}
	dir, err := os.MkdirTemp("", "shell") // the name of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, sub := range []string{"completions", filepath.Dir(file)} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, file), strings.ReplaceAll(start, "{dir}", dir))
	for from, to := range map[string]string{"pmcdctl.bash": "pmcdctl", "_pmcdctl": "_pmcdctl", "pmcdctl.fish": "pmcdctl.fish"} {
		text, err := os.ReadFile("../../../etc/completions/" + from)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "completions", to), string(text))
	}
	p := &pane{filepath.Join(dir, "tmux")}
	command := append(append([]string{"env", "-i", "TERM=screen", "LC_ALL=C.UTF-8", "HOME=" + dir, "XDG_CONFIG_HOME=" + dir}, env...), path)
	command = append(command, strings.Fields(strings.ReplaceAll(args, "{dir}", dir))...)
	p.tmux(t, append([]string{"new-session", "-d", "-x", "120", "-y", "40"}, command...)...)
	t.Cleanup(func() {
		// A shell writes its history at its end.
		p.tmux(t, "send-keys", "C-u", "exit", "Enter")
		if !peer.Until(testutil.Hangs, func() bool { return exec.Command("tmux", "-S", p.sock, "has-session").Run() != nil }) {
			exec.Command("tmux", "-S", p.sock, "kill-server").Run()
			t.Errorf("%s does not end", shell)
		}
	})
	if screen, ok := p.wait(t, testutil.Hangs, regexp.MustCompile(`^>$`)); !ok {
		t.Fatalf("no prompt:\n%s", screen)
	}
	return p
}

func (p *pane) tmux(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", p.sock, "-f", "/dev/null"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// wait waits until the screen matches.
func (p *pane) wait(t *testing.T, timeout time.Duration, want *regexp.Regexp) (screen string, ok bool) {
	t.Helper()
	ok = peer.Until(timeout, func() bool {
		screen = strings.TrimSpace(p.tmux(t, "capture-pane", "-p"))
		return want.MatchString(screen)
	})
	return screen, ok
}

// expect types keys until the screen matches. On a busy machine pmcdctl may give up before
// pmcd answers: then the line is typed again.
func (p *pane) expect(t *testing.T, keys string, want *regexp.Regexp) {
	t.Helper()
	var screen string
	for range 5 {
		p.tmux(t, "send-keys", "C-u", "C-l") // and not C-c, for which the kernel drops what was typed after it
		if screen, ok := p.wait(t, testutil.Hangs, regexp.MustCompile(`^>$`)); !ok {
			t.Fatalf("no empty line:\n%s", screen)
		}
		p.tmux(t, "send-keys", "-l", keys)
		var ok bool
		if screen, ok = p.wait(t, 2*completionTime, want); ok {
			return
		}
	}
	t.Errorf("%q does not match %s:\n%s", keys, want, screen)
}
