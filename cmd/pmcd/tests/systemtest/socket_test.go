package systemtest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// readme returns the commands for root, one a line, that the README has in the
// block of code after a heading in bold.
func readme(t *testing.T, heading string) []string {
	t.Helper()
	return commandsAfter(t, "README.md", "\n**"+heading+"**")
}

// commandsAfter returns the commands for root, one a line, in the first block of code that a
// document has after a text.
func commandsAfter(t *testing.T, document, after string) (commands []string) {
	t.Helper()
	for _, line := range blockAfter(t, document, after) {
		if command, ok := strings.CutPrefix(line, "sudo "); ok {
			command, _, _ = strings.Cut(command, "#")
			commands = append(commands, strings.ReplaceAll(command, "sudo ", ""))
		}
	}
	return commands
}

// blockAfter returns the lines of the first block of code that a document has after a text.
func blockAfter(t *testing.T, document, after string) []string {
	t.Helper()
	root, err := peer.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(b), after)
	if !ok {
		t.Fatalf("%s has no %q", document, after)
	}
	_, text, ok = strings.Cut(text, "\n```sh\n")
	text, _, ok2 := strings.Cut(text, "\n```\n")
	if !ok || !ok2 {
		t.Fatalf("%s has no block of code after %q", document, after)
	}
	return strings.Split(text, "\n")
}

// The commands of the README work in the order in which it has them: systemd
// listens, or pmcd does.
func TestReadme(t *testing.T) {
	h := without(t)
	h.needIPv6()
	commands := append(readme(t, "Without PCP"), commandsAfter(t, "README.md", "PMCD_OPTIONS), not systemd")...)
	if len(commands) != 5 {
		t.Fatalf("commands of the README: %q", commands)
	}
	for i, command := range commands {
		h.run(command)
		if i < 3 {
			continue
		}
		h.check("pmcdctl status", "user pcp", "127.0.0.1:44321", "[::1]:44321", "/run/pcp/pmcd.socket")
		if got, want := h.show("pmcd.socket", "ActiveState"), []string{"active", "inactive"}[i-3]; got != want {
			t.Errorf("after %s the socket unit is %s, want %s", command, got, want)
		}
		h.check("pmcdctl get kernel.all.load", "15 minute")
	}
	h.check("systemctl is-enabled pmcd.service", "enabled")
	if text := h.journal("pmcd.socket"); strings.Contains(text, "refusing") {
		t.Errorf("the journal:\n%s", text)
	}
}

// The same with PCP, and back.
func TestPCPReadme(t *testing.T) {
	h := with(t)
	commands := readme(t, "With PCP")
	if len(commands) != 1 {
		t.Fatalf("commands of the README: %q", commands)
	}
	h.run(commands[0])
	h.check("swap-pmcd status", "is this pmcd")
	h.check("pmcdctl status", "user pcp")
	h.run("swap-pmcd out")
	h.run(commands[0])
	if text, code := h.Try("swap-pmcd status"); code != 1 || !strings.Contains(text, "is PCP's pmcd") {
		t.Errorf("exit status %d, %s", code, text)
	}
}

// While pmcd restarts no client is refused, and each is greeted in the end.
func TestSocketRestarts(t *testing.T) {
	h := without(t)
	h.needIPv6()
	h.run("systemctl start pmcd.socket pmcd.service")
	var clients sync.WaitGroup
	stop := make(chan struct{})
	defer func() {
		close(stop)
		clients.Wait()
	}()
	for _, c := range []struct{ network, address string }{
		{"tcp", "127.0.0.1:44321"}, {"tcp", "[::1]:44321"}, {"unix", "/run/pcp/pmcd.socket"},
	} {
		clients.Add(1)
		go func() {
			defer clients.Done()
			for n := 0; ; n++ {
				select {
				case <-stop:
					t.Logf("%s: %d connections", c.address, n)
					return
				default:
				}
				conn, err := h.Dial(c.network, c.address)
				if errors.Is(err, syscall.ECONNRESET) {
					continue // accepted, see below
				}
				if err != nil {
					t.Errorf("%s, connection %d: %v", c.address, n, err)
					return
				}
				conn.SetDeadline(time.Now().Add(testutil.Hangs))
				// One that pmcd has accepted as it ended may be closed.
				if _, err := conn.Read(make([]byte, 4)); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s, connection %d: %v", c.address, n, err)
				}
				conn.Close()
			}
		}()
	}
	for range 4 {
		h.run("systemctl restart pmcd.service")
	}
}

// Without IPv6 systemd listens at the other addresses: when it is switched off,
// and when the kernel has none (ipv6.disable=1), where systemd looks for
// /proc/net/if_inet6.
func TestSocketWithoutIPv6(t *testing.T) {
	for name, script := range map[string]string{
		"switched off":      "sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.lo.disable_ipv6=1",
		"not in the kernel": "mkdir /run/none && mount --bind /run/none /proc/1/net && systemctl daemon-reload",
	} {
		t.Run(name, func(t *testing.T) {
			h := without(t)
			h.needIPv6() // to switch it off
			h.run(script)
			h.run("systemctl start pmcd.socket")
			for _, c := range []struct{ network, address string }{{"tcp", "127.0.0.1:44321"}, {"unix", "/run/pcp/pmcd.socket"}} {
				h.greets(c.network, c.address)
			}
			if conn, err := h.Dial("tcp", "[::1]:44321"); !errors.Is(err, syscall.EADDRNOTAVAIL) && name == "switched off" {
				t.Errorf("::1: %v, %v", conn, err)
			}
			h.run("systemctl start pmcd.service && pmcdctl status")
		})
	}
}

// The first client starts pmcd.
func TestSocketStarts(t *testing.T) {
	h := without(t)
	h.run("systemctl start pmcd.socket")
	if got := h.show("pmcd.service", "ActiveState"); got != "inactive" {
		t.Errorf("pmcd is %s before the first client", got)
	}
	h.greets("tcp", "127.0.0.1:44321")
	h.until("systemctl is-active pmcd.service")
	h.run("systemctl stop pmcd.service")
	h.check("ls /run/pcp", "pmcd.socket\n")
	h.run("systemctl stop pmcd.socket")
	if text := h.run("ls /run/pcp"); text != "" {
		t.Errorf("left in /run/pcp:\n%s", text)
	}
}

// needIPv6 is for a test that listens at ::1 or another address of IPv6 on the machine.
func (h *host) needIPv6() {
	h.t.Helper()
	if _, code := h.Try("ip -6 address show dev lo | grep -q ::1"); code != 0 {
		testutil.Missing(h.t, "the kernel has no IPv6, or it is switched off")
	}
}

// greets connects to pmcd and waits for its greeting.
func (h *host) greets(network, address string) {
	h.t.Helper()
	conn, err := h.Dial(network, address)
	if err != nil {
		h.t.Errorf("%s: %v", address, err)
		return
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testutil.Hangs))
	if _, err := conn.Read(make([]byte, 4)); err != nil {
		h.t.Errorf("%s: %v", address, err)
	}
}
