// Package booted boots throw-away copies of this host, or of another root directory, with
// systemd or sysvinit, for tests of what an admin does with services: units, sockets, installation and
// removal.
//
// A machine has the files of the root directory; what it writes is in memory. It has
// processes, mounts, a network with nothing but lo, and control groups of its
// own. All of that ends with it, and it ends with the test program, even if that
// is killed. What it cannot do: set the clock, load modules, write to /sys, or to
// /proc/sys except for /proc/sys/net.
//
// It needs root with CAP_SYS_ADMIN, systemd, util-linux, iproute2, overlayfs and
// version 2 of control groups (which need no controllers, and no mount). The
// systemd of the host, if it runs at all, has no part in it.
package booted

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

//go:embed boot.sh
var bootScript string

//go:embed sweep.sh
var sweepScript string

// A Machine is a copy of a root directory that has booted.
type Machine struct {
	init  *exec.Cmd // becomes systemd
	ended chan struct{}
	err   error     // of init, once ended
	sweep *exec.Cmd // removes control groups
	alive io.Closer // the input of sweep
	out   *output   // of init
}

const (
	bootTimeout = 5 * time.Minute
	runTimeout  = 15 * time.Minute // a purge takes 5 s on a quiet machine
)

// environment is that of all commands on a machine, as of an admin.
var environment = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME=/root",
	"LC_ALL=C.UTF-8",
	"TZ=UTC",
	"DEBIAN_FRONTEND=noninteractive",
	"SYSTEMD_PAGER=",
	"SYSTEMD_COLORS=0",
}

// number tells the machines of this program apart.
var number atomic.Int64

// A Layer is what a machine has changed in the files of its root directory, an archive of
// tar(1). The nil one is no change.
type Layer []byte

// Host is the root directory of this host.
const Host = "/"

// ErrImpossible is why Boot cannot boot a machine on this one.
var ErrImpossible = errors.New("a machine cannot be booted here")

// Boot boots a machine with the files of a root directory and the changes in layer. The
// caller must call Halt.
func Boot(root string, layer Layer) (*Machine, error) {
	if err := possible(root); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrImpossible, err)
	}
	m := &Machine{ended: make(chan struct{}), out: new(output)}
	name := fmt.Sprintf("pmcd-booted-%d-%d", os.Getpid(), number.Add(1))
	if err := m.startSweep(name); err != nil {
		return nil, err
	}
	started := make(chan error)
	go m.runInit(name, root, layer, started)
	err := <-started
	if err == nil {
		err = m.waitBooted()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the machine has not booted: %w\n%s", err, m.out), m.Halt())
	}
	return m, nil
}

// possible says what keeps a machine from being booted, before anything is
// made.
func possible(root string) error {
	if os.Geteuid() != 0 {
		return errors.New("this needs root")
	}
	const sysAdmin = 1 << 21
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if hex, ok := strings.CutPrefix(line, "CapEff:\t"); ok {
			if caps, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64); err != nil || caps&sysAdmin == 0 {
				return errors.New("this needs CAP_SYS_ADMIN, which root has not in this container")
			}
		}
	}
	for _, name := range []string{"mount", "unshare", "nsenter", "setpriv", "ip", "hostname"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%w (run make peers)", err)
		}
	}
	for _, path := range []string{"/usr/lib/systemd/systemd", "/lib/systemd/systemd", "/sbin/init"} {
		if _, err := os.Stat(filepath.Join(root, path)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("there is no systemd in %s (run make peers)", root)
}

// startSweep starts what removes the control group called name, and those
// below it, at the end.
func (m *Machine) startSweep(name string) error {
	m.sweep = exec.Command("/bin/sh", "-c", sweepScript, "sweep.sh", name)
	// What ends the test program, from the terminal too, must not end this.
	m.sweep.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Setsid: true}
	alive, err := m.sweep.StdinPipe()
	if err != nil {
		return err
	}
	m.alive = alive
	return m.sweep.Start()
}

// runInit runs the machine's first process, and says whether it has started.
func (m *Machine) runInit(name, root string, layer Layer, started chan<- error) {
	// Pdeathsig is about the end of the thread, not of the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m.init = exec.Command("/bin/sh", "-c", bootScript, "boot.sh", name)
	m.init.Env = append([]string{"BOOT_SCRIPT=" + bootScript, "BOOT_LAYER=", "BOOT_ROOT=" + root}, environment...)
	if layer != nil {
		f, err := layer.file()
		if err != nil {
			started <- err
			return
		}
		defer f.Close()
		m.init.Env[1] += "yes"
		m.init.ExtraFiles = []*os.File{f}
	}
	m.init.Stdout, m.init.Stderr = m.out, m.out
	m.init.WaitDelay = time.Second
	m.init.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Setsid:     true,
		Pdeathsig:  syscall.SIGKILL,
	}
	err := m.init.Start()
	started <- err
	if err == nil {
		m.err = m.init.Wait()
		close(m.ended)
	}
}

// file returns a file with the archive, which has no name.
func (l Layer) file() (*os.File, error) {
	f, err := os.CreateTemp("", "layer")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	if _, err := f.WriteAt(l, 0); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Save returns what the machine has changed so far, for Boot of other machines.
func (m *Machine) Save() (Layer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), runTimeout)
	defer cancel()
	return m.command(ctx, "tar -C /run/upper --xattrs --xattrs-include='trusted.*' -cf - .").Output()
}

// hasBooted prints "running" or "degraded" when the first process has started what it is to
// start. Until systemd listens it fails at once.
const hasBooted = `if [ "$(cat /proc/1/comm)" = init ]; then
	[ "$(runlevel)" = "N 2" ] && ! pgrep -x rc >/dev/null && echo running
else
	systemctl is-active --quiet booted.target && systemctl is-system-running --wait
fi`

// waitBooted waits until then.
func (m *Machine) waitBooted() error {
	ctx, cancel := context.WithTimeout(context.Background(), bootTimeout)
	defer cancel()
	for {
		text, err := m.command(ctx, hasBooted).Output()
		if how := strings.TrimSpace(string(text)); how == "running" || how == "degraded" {
			return nil
		}
		select {
		case <-m.ended:
			return fmt.Errorf("its first process has ended: %v", m.err)
		case <-ctx.Done():
			console, _ := os.ReadFile(m.Path("/dev/console"))
			return fmt.Errorf("it is not up after %v: %v\n%s", bootTimeout, err, console)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Halt ends the machine: its processes are killed. It returns when nothing is
// left.
func (m *Machine) Halt() error {
	if m.init != nil && m.init.Process != nil {
		m.init.Process.Kill()
		<-m.ended // all other processes, too, have ended by then
	}
	m.alive.Close()
	if err := m.sweep.Wait(); err != nil {
		return fmt.Errorf("control groups are left: %w", err)
	}
	return nil
}

// Path is the name outside of the machine of one of its files.
func (m *Machine) Path(name string) string {
	return filepath.Join("/proc", strconv.Itoa(m.init.Process.Pid), "root", name)
}

// PID is that of the machine's first process as this host sees it.
func (m *Machine) PID() int { return m.init.Process.Pid }
