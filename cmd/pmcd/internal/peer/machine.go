package peer

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

//go:embed machine.sh
var machineScript string

// startScript starts the machine's pmcd with what PCP's rc script gives it, but
// in the foreground.
const startScript = `
. /etc/pcp.env
export $(grep -E '^(PMCD|PCP)' $PCP_SYSCONFIG_DIR/pmcd)
cd $PCP_LOG_DIR/pmcd
exec $PCP_BINADM_DIR/pmcd -f $(grep ^- $PCP_PMCDOPTIONS_PATH)`

// A Machine is the standard installation of PCP with one pmcd, for scripts
// that take the machine for theirs: they name no port and no file, and send
// signals to whatever is called pmcd.
//
// It has name spaces of its own for mounts, processes and the network. What is
// written in PCP's directories is in memory and gone at the end; the rest of
// the file system is the real one and cannot be written to.
type Machine struct {
	// User is the user that pmcd starts as, if not root.
	User string

	script string    // makes the machine
	args   []string  // of the script
	shared bool      // there were processes before pmcd
	init   *exec.Cmd // the script
	stdin  io.Closer // the machine ends when this is closed
	pmcd   *exec.Cmd
}

// StartMachine starts a machine with the pmcd at path. At the end of the test
// PCP's rc script stops that pmcd, and no process may be left. The test is
// skipped where name spaces are not permitted, but fails if peers are required.
func StartMachine(tb testing.TB, path string) *Machine {
	tb.Helper()
	m := BootMachine(tb, path)
	m.Start(tb)
	return m
}

// Start starts pmcd on a machine until the end of the test: see StartMachine.
func (m *Machine) Start(tb testing.TB) {
	tb.Helper()
	path := m.args[0]
	if err := m.start(); err != nil {
		tb.Fatalf("machine with %s: %v", path, err)
	}
	tb.Cleanup(func() {
		if err := m.stop(); err != nil {
			tb.Errorf("machine with %s: %v", path, err)
		}
		if tb.Failed() {
			log := m.Log()
			tb.Logf("%s:\n%s", path, log[max(0, len(log)-4000):])
		}
	})
}

// BootMachine makes a machine on which pmcd does not run yet.
func BootMachine(tb testing.TB, path string) *Machine {
	tb.Helper()
	Require(tb)
	m := &Machine{script: machineScript, args: []string{path}}
	m.bootT(tb)
	return m
}

func (m *Machine) bootT(tb testing.TB) {
	tb.Helper()
	err := m.boot()
	if errors.Is(err, fs.ErrPermission) {
		testutil.Missing(tb, "no name spaces: ", err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(m.halt)
}

func (m *Machine) boot() error {
	m.init = exec.Command("/bin/sh", append([]string{"-c", m.script, "machine"}, m.args...)...)
	m.init.Env = machineEnv
	m.init.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
	}
	var stderr bytes.Buffer
	m.init.Stderr = &stderr
	stdin, err := m.init.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := m.init.StdoutPipe()
	if err != nil {
		return err
	}
	if err := m.init.Start(); err != nil {
		return err
	}
	m.stdin = stdin
	const ready = "ready\n"
	if _, err := io.ReadFull(stdout, make([]byte, len(ready))); err != nil {
		m.halt()
		return fmt.Errorf("making a machine: %v\n%s", m.init.ProcessState, &stderr)
	}
	return nil
}

// halt ends all processes of the machine.
func (m *Machine) halt() {
	m.stdin.Close()
	kill := time.AfterFunc(stopTimeout, func() { m.init.Process.Kill() })
	defer kill.Stop()
	m.init.Wait()
}

// start starts pmcd and waits until it serves, as PCP's scripts do.
func (m *Machine) start() error {
	// What made the machine may be about to end.
	m.shared = !Until(time.Second, func() bool { return len(m.Processes()) == 0 })
	out, err := os.Create(m.outPath())
	if err != nil {
		return err
	}
	defer out.Close()
	args := []string{"sh", "-c", startScript}
	if m.User != "" {
		o, err := m.Run(context.Background(), "/", Client{Args: []string{"chown", "-R", m.User, "/var/log/pcp/pmcd"}})
		if err != nil || o.Code != 0 {
			return fmt.Errorf("log directory of %s: %w\n%s", m.User, err, o)
		}
		args = append([]string{"setpriv", "--reuid", m.User, "--regid", m.User, "--init-groups", "--"}, args...)
	}
	m.pmcd = m.command(context.Background(), "/", Client{Args: args})
	m.pmcd.Stdout, m.pmcd.Stderr = out, out
	if err := m.pmcd.Start(); err != nil {
		return err
	}
	o, err := m.Run(context.Background(), "/", Client{Args: []string{"pmcd_wait"}})
	if err == nil && o.Code != 0 {
		err = fmt.Errorf("pmcd_wait: %s\n%s", o, m.Log())
	}
	if err != nil {
		m.pmcd.Process.Kill()
		m.pmcd.Wait()
	}
	return err
}

// stop has PCP's rc script stop pmcd.
func (m *Machine) stop() error {
	o, err := m.Run(context.Background(), "/", Client{Args: []string{"/etc/init.d/pmcd", "stop"}})
	if err != nil {
		return err
	}
	var errs []error
	if o.Code != 0 || strings.Contains(o.String(), "Warning") {
		errs = append(errs, fmt.Errorf("/etc/init.d/pmcd stop: %s", o))
		m.pmcd.Process.Kill()
	}
	if err := m.pmcd.Wait(); err != nil {
		errs = append(errs, fmt.Errorf("pmcd: %w", err))
	}
	// Agents end by themselves when their pipe is closed.
	var left []string
	if !Until(30*time.Second, func() bool { left = m.ofPCP(); return len(left) == 0 }) {
		errs = append(errs, fmt.Errorf("processes are left: %q", left))
	}
	if strings.Contains(m.Log(), "DATA RACE") {
		errs = append(errs, errors.New("the race detector found a race"))
	}
	return errors.Join(errs...)
}

// ofPCP are the command lines of all processes but, where others ran before pmcd
// did, only those of PCP's directories. PCP's own pmcd leaves some agents there
// that wait for their server.
func (m *Machine) ofPCP() []string {
	ps := m.Processes()
	if m.shared {
		ps = slices.DeleteFunc(ps, func(p string) bool { return m.args[0] == "" || !strings.Contains(p, "/pcp/") })
	}
	return ps
}

// Path is the name outside of the machine of one of its files. A client that
// connects to the Unix socket of that name is on the machine.
func (m *Machine) Path(name string) string {
	return "/proc/" + strconv.Itoa(m.init.Process.Pid) + "/root" + name
}

func (m *Machine) outPath() string { return m.Path("/var/tmp/pmcd.out") }

// Log is what pmcd has printed and logged so far.
func (m *Machine) Log() string {
	out, _ := os.ReadFile(m.outPath())
	log, _ := os.ReadFile(m.Path("/var/log/pcp/pmcd/pmcd.log"))
	return string(out) + string(log)
}

// Processes are the command lines of all processes but that which is the
// machine.
func (m *Machine) Processes() []string {
	var ps []string
	es, _ := os.ReadDir(m.Path("/proc"))
	for _, e := range es {
		b, _ := os.ReadFile(m.Path("/proc/" + e.Name() + "/cmdline"))
		if line := strings.ReplaceAll(strings.TrimSuffix(string(b), "\x00"), "\x00", " "); isPID.MatchString(e.Name()) && line != "" && line != "cat" {
			ps = append(ps, line)
		}
	}
	return ps
}

var isPID = regexp.MustCompile(`^([2-9]|\d{2,})$`)

// Run runs a command on the machine, in a directory of it. What stands for the
// daemon in a Client does not here.
func (m *Machine) Run(ctx context.Context, dir string, c Client) (Output, error) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	o, err := output(ctx, m.command(ctx, dir, c))
	o.Cmd = dir + ": " + strings.Join(c.Args, " ")
	return o, err
}

// machineEnv is the environment of all programs on a machine.
var machineEnv = []string{
	"PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/pcp/bin",
	"HOME=/var/tmp",
	"TMPDIR=/var/tmp",
	"LC_ALL=C",
	"TZ=UTC",
	"PCP_DERIVED_CONFIG=",
	"PMCD_CONNECT_TIMEOUT=60",
	"PMCD_REQUEST_TIMEOUT=60",
	"GORACE=atexit_sleep_ms=0",
}

func (m *Machine) command(ctx context.Context, dir string, c Client) *exec.Cmd {
	args := append([]string{"-t", strconv.Itoa(m.init.Process.Pid), "-m", "-p", "-n", "-i", "--",
		"sh", "-c", `cd "$0" && exec "$@"`, dir}, c.Args...)
	cmd := exec.CommandContext(ctx, "/usr/bin/nsenter", args...)
	cmd.Env = append(append([]string(nil), machineEnv...), c.Env...)
	cmd.Stdin = strings.NewReader(c.Stdin)
	return cmd
}
