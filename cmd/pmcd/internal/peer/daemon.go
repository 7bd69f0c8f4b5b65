package peer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	startTimeout = 60 * time.Second // with the race detector on a busy machine
	stopTimeout  = 60 * time.Second
)

// Daemon is a pmcd that runs for tests, with a directory of its own that holds
// its configuration (conf, pmns), its log, its socket (sock), what it and its
// agents print (out), and all that PCP's variables name.
type Daemon struct {
	Path string // program
	Dir  string
	Port int
	Sock string

	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd was waited for
	agents []Proc        // children seen before it was stopped
}

var daemonCount atomic.Int32

// Start starts the pmcd at path and waits until it greets on the Unix socket
// and on its port.
func Start(path string, c Config) (*Daemon, error) {
	base, err := scratchDir()
	if err != nil {
		return nil, err
	}
	d := &Daemon{Path: path, Dir: filepath.Join(base, strconv.Itoa(int(daemonCount.Add(1))))}
	d.Sock = filepath.Join(d.Dir, "sock")
	if err := c.write(d.Dir); err != nil {
		return nil, err
	}
	// A port that was free when we looked may be taken when the daemon opens
	// it. pmcd goes on without it, so the greeting is asked for there too.
	for try := 0; ; try++ {
		if d.Port, err = FreePort(); err != nil {
			return nil, err
		}
		if err = d.start(c); err == nil {
			return d, nil
		}
		err = fmt.Errorf("%w\n%s", errors.Join(err, d.kill()), d.Report())
		if try == 3 || !errors.Is(err, errNotOurs) {
			return nil, err
		}
	}
}

// StartT is [Start] for one test, which fails if the daemon does not start or
// stop as it should.
func StartT(tb testing.TB, path string, c Config) *Daemon {
	tb.Helper()
	Require(tb)
	d, err := Start(path, c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Stop(); err != nil {
			tb.Error(err)
		}
		if tb.Failed() {
			tb.Log(d.Report())
		}
	})
	return d
}

func (d *Daemon) start(c Config) error {
	what := []string{"-c", "conf", "-n", "pmns"}
	if c.Embedded {
		what = []string{"--embedded"}
	}
	// Agents have time on a busy machine.
	args := append([]string{"-f", "-A", "-U", "root", "-p", strconv.Itoa(d.Port), "-s", d.Sock, "-l", "log/pmcd.log", "-q", "60", "-t", "60"}, what...)
	d.cmd = exec.Command(d.Path, append(args, c.Args...)...)
	d.cmd.Dir = d.Dir
	d.cmd.Env = append(d.env(),
		"PCP_VAR_DIR="+filepath.Join(d.Dir, "var"),
		"PCP_SYSCONF_DIR="+filepath.Join(d.Dir, "etc"),
		"PCP_PMDAS_DIR="+filepath.Join(d.Dir, "pmdas"),
		// The pmdaroot of the machine's own pmcd must not start our agents.
		"PMCD_ROOT_AGENT=0",
		// A client that connects while 5 others wait is not what we test.
		"PMCD_MAXPENDING=128",
		// A program built with -race sleeps a second at its end otherwise.
		"GORACE=atexit_sleep_ms=0")
	d.cmd.Env = append(d.cmd.Env, c.Env...)
	out, err := os.Create(filepath.Join(d.Dir, "out"))
	if err != nil {
		return err
	}
	defer out.Close()
	d.cmd.Stdout, d.cmd.Stderr = out, out
	d.exited = make(chan struct{})
	if err := StartAndWait(d.cmd, d.exited); err != nil {
		return err
	}

	return d.waitReady(c.Bare, time.Now().Add(startTimeout))
}

// waitReady polls until the daemon greets on its socket and on its port or, if
// no client is to connect, says in its log that it serves.
func (d *Daemon) waitReady(quietly bool, end time.Time) error {
	poll := func(greets func() error) error {
		for {
			err := greets()
			if err == nil || errors.Is(err, errNotOurs) {
				return err
			}
			select {
			case <-d.exited:
				return fmt.Errorf("%s ended at start: %v", d.Path, d.cmd.ProcessState)
			case <-time.After(5 * time.Millisecond):
			}
			if time.Now().After(end) {
				return fmt.Errorf("%s does not greet: %w", d.Path, err)
			}
		}
	}
	serves := func() error { return greeting("unix", d.Sock) }
	if quietly {
		serves = func() error {
			if !strings.Contains(d.Log(), "pmcd request port(s):") {
				return errors.New("its log does not say that it serves")
			}
			return nil
		}
	}
	if err := poll(serves); err != nil {
		return err
	}
	// By now the daemon has opened what it could. If the port is not among that, the
	// process that has it must not be asked for a greeting.
	var err error
	if !Until(2*time.Second, func() bool {
		var ours bool
		ours, err = listens(d.PID(), d.Port)
		return ours
	}) {
		return errors.Join(errNotOurs, err)
	}
	if quietly {
		return nil
	}
	return poll(func() error { return greeting("tcp4", "127.0.0.1:"+strconv.Itoa(d.Port)) })
}

// StartAndWait starts the command in a process group of its own and closes
// exited when it has ended. Should this test program die (go test -timeout),
// the kernel ends the command: that signal comes when the thread that started
// it ends, so a goroutine keeps that thread.
func StartAndWait(cmd *exec.Cmd, exited chan struct{}) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
			close(exited)
		}
	}()
	return <-started
}

// env is what the daemon, its agents and its clients share: nothing of the
// environment of the test but what is listed here.
func (d *Daemon) env() []string {
	return []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + filepath.Join(d.Dir, "home"),
		"LC_ALL=C",
		"TZ=UTC",
		"PCP_RUN_DIR=" + filepath.Join(d.Dir, "run"),
		"PCP_TMP_DIR=" + filepath.Join(d.Dir, "tmp"),
		"PCP_TMPFILE_DIR=" + filepath.Join(d.Dir, "tmp"),
		"PCP_LOG_DIR=" + filepath.Join(d.Dir, "log"),
		// Otherwise a client adds metrics of its own to the name space.
		"PCP_DERIVED_CONFIG=",
		"PCP_PYTHON_PROG=/usr/bin/python3",
		"PMCD_CONNECT_TIMEOUT=60",
		"PMCD_REQUEST_TIMEOUT=60",
	}
}

// PID is the process id of the daemon.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Signal sends a signal to the daemon alone.
func (d *Daemon) Signal(s syscall.Signal) error { return d.cmd.Process.Signal(s) }

// Exited is closed when the daemon has ended.
func (d *Daemon) Exited() <-chan struct{} { return d.exited }

// Log is the text of the daemon's log so far.
func (d *Daemon) Log() string {
	b, _ := os.ReadFile(filepath.Join(d.Dir, "log", "pmcd.log"))
	return string(b)
}

// Report is what to print about the daemon when a test failed.
func (d *Daemon) Report() string {
	var s strings.Builder
	for _, f := range []string{"out", "log/pmcd.log"} {
		b, _ := os.ReadFile(filepath.Join(d.Dir, f))
		if b = bytes.TrimSpace(b); len(b) > 20000 {
			b = append([]byte("...\n"), b[len(b)-20000:]...)
		}
		if len(b) > 0 {
			fmt.Fprintf(&s, "--- %s, %s:\n%s\n", d.Path, f, b)
		}
	}
	return s.String()
}

// Stop sends SIGTERM and waits. It is an error if the daemon had ended before,
// if it does not end with status 0, if an agent or the socket is left, or if the race
// detector has reported a data race.
func (d *Daemon) Stop() error {
	var errs []error
	select {
	case <-d.exited:
		errs = append(errs, errors.New("ended before it was stopped"))
	default:
	}
	d.agents = append(d.agents, Descendants(d.PID())...)
	d.Signal(syscall.SIGTERM)
	select {
	case <-d.exited:
		if st := d.cmd.ProcessState; !st.Success() {
			errs = append(errs, fmt.Errorf("ended with %v", st))
		}
	case <-time.After(stopTimeout):
		errs = append(errs, fmt.Errorf("did not end within %v of SIGTERM", stopTimeout))
		// SIGQUIT makes a Go program print its goroutines, and does other programs no harm.
		d.Signal(syscall.SIGQUIT)
	}
	// Agents end by themselves when their pipe is closed.
	Until(30*time.Second, func() bool {
		for _, p := range d.agents {
			if p.Alive() {
				return false
			}
		}
		return true
	})
	for _, p := range killLeft(d.agents) {
		errs = append(errs, fmt.Errorf("left agent %s (pid %d) behind", p.Name, p.PID))
	}
	if err := d.kill(); err != nil {
		errs = append(errs, err)
	}
	if _, err := os.Lstat(d.Sock); err == nil {
		errs = append(errs, fmt.Errorf("left %s behind", d.Sock))
	}
	if out, _ := os.ReadFile(filepath.Join(d.Dir, "out")); bytes.Contains(out, []byte("DATA RACE")) || strings.Contains(d.Log(), "DATA RACE") {
		errs = append(errs, errors.New("the race detector found a race"))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w\n%s", d.Path, errors.Join(errs...), d.Report())
}

// kill makes sure that nothing of the daemon runs on.
func (d *Daemon) kill() error {
	if d.cmd == nil || d.cmd.Process == nil {
		return nil
	}
	d.agents = append(d.agents, Descendants(d.PID())...)
	select {
	case <-d.exited:
	case <-time.After(100 * time.Millisecond):
		d.Signal(syscall.SIGKILL)
		select {
		case <-d.exited:
		case <-time.After(stopTimeout):
			return errors.New("not even SIGKILL ended it")
		}
	}
	killLeft(d.agents)
	return nil
}
