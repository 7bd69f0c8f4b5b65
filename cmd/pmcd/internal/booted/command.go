package booted

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// command is a shell script on the machine. It is in a control group beside
// those of services.
func (m *Machine) command(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nsenter", "--target", strconv.Itoa(m.init.Process.Pid),
		"--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd", "--",
		"sh", "-c", script)
	cmd.Env = environment
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// Try runs a shell script on the machine as root and returns what it printed and
// its exit status, -1 if it took too long.
func (m *Machine) Try(script string) (string, int) {
	ctx, cancel := context.WithTimeout(context.Background(), runTimeout)
	defer cancel()
	cmd := m.command(ctx, script)
	text, err := cmd.CombinedOutput()
	if ee := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ee) || ctx.Err() != nil {
		return fmt.Sprintf("%s%v", text, errors.Join(err, ctx.Err())), -1
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// Run is Try of a script that must not fail.
func (m *Machine) Run(tb testing.TB, script string) string {
	tb.Helper()
	text, code := m.Try(script)
	if code != 0 {
		tb.Fatalf("%s: exit status %d\n%s", script, code, text)
	}
	return text
}

// Dial connects to an address in the network of the machine, or to a Unix domain
// socket, whose name has to be short.
func (m *Machine) Dial(network, address string) (net.Conn, error) {
	if network == "unix" {
		return net.Dial(network, m.Path(address))
	}
	return peer.DialFrom(m.init.Process.Pid, network, address)
}

// Write writes a file of the machine, which all may read, and makes directories
// for it.
func (m *Machine) Write(tb testing.TB, path, text string) {
	tb.Helper()
	path = m.Path(path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644), os.Chmod(path, 0o644)); err != nil {
		tb.Fatal(err)
	}
}

// output keeps the last of what is written to it.
type output struct{ tail []byte }

func (o *output) Write(b []byte) (int, error) {
	const most = 16 << 10
	o.tail = append(o.tail, b...)
	o.tail = o.tail[max(0, len(o.tail)-most):]
	return len(b), nil
}

func (o *output) String() string { return string(bytes.TrimSpace(o.tail)) }
