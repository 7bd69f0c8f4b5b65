package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// A daemon is a running pmcd with a directory of its own.
type daemon struct {
	port  int
	dir   string
	began time.Time // when it was started

	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd.Wait has returned
}

// start starts a pmcd in a new directory below base and returns at once.
func start(base, program string, s setup, ours bool, args ...string) (*daemon, error) {
	dir, err := os.MkdirTemp(base, "d")
	if err != nil {
		return nil, err
	}
	// Agents write to some of these directories as another user.
	for _, d := range []string{"", "var", "var/pmcd", "var/config", "var/config/pmda", "run", "tmp", "log"} {
		d = filepath.Join(dir, d)
		if err := errors.Join(os.MkdirAll(d, 0o777), os.Chmod(d, 0o777|os.ModeSticky)); err != nil {
			return nil, err
		}
	}
	conf, err := s.conf(ours)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "conf"), []byte(conf), 0o644)
	}
	if err == nil {
		err = writePMNS(filepath.Join(dir, "pmns"), s.gen)
	}
	if err == nil {
		err = s.writeSecurity(dir)
	}
	d := &daemon{dir: dir, exited: make(chan struct{})}
	if err == nil {
		d.port, err = freePort()
	}
	if err == nil {
		err = d.exec(program, s, ours, args)
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return d, nil
}

func (d *daemon) exec(program string, s setup, ours bool, args []string) error {
	if s.listen != "" {
		args = append([]string{"-i", "127.0.0.1", "-i", s.listen}, args...)
	}
	if s.agents == hostAgents {
		args = append([]string{"-t", "60"}, args...) // the first fetch of 10,000 processes may take long
	}
	foreground, user := s.mode(ours)
	d.cmd = exec.Command(program, append([]string{foreground, "-A", "-U", user, "-c", "conf", "-n", "pmns",
		"-p", strconv.Itoa(d.port), "-s", filepath.Join(d.dir, "sock"), "-l", "log/pmcd.log"}, args...)...)
	d.cmd.Dir = d.dir
	d.cmd.Env = []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "TZ=UTC",
		"PMCD_ROOT_AGENT=0", // not the pmdaroot of another pmcd on this machine
		"PCP_VAR_DIR=" + filepath.Join(d.dir, "var"),
		"PCP_RUN_DIR=" + filepath.Join(d.dir, "run"),
		"PCP_TMP_DIR=" + filepath.Join(d.dir, "tmp"),
		"PCP_LOG_DIR=" + filepath.Join(d.dir, "log"),
		"GORACE=atexit_sleep_ms=0",
	}
	d.cmd.Env = append(d.cmd.Env, s.env(d.dir)...)
	out, err := os.Create(filepath.Join(d.dir, "out"))
	if err != nil {
		return err
	}
	defer out.Close()
	d.cmd.Stdout, d.cmd.Stderr = out, out
	// If this program dies, the kernel sends SIGTERM to the daemon. It does so
	// when the thread that started the daemon exits, so a goroutine keeps that
	// thread.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		d.began = time.Now()
		err := d.cmd.Start()
		started <- err
		if err == nil {
			d.cmd.Wait()
			close(d.exited)
		}
	}()
	return <-started
}

// freePort returns a port without a listener, below the ports that the kernel uses
// for outgoing connections.
func freePort() (port int, err error) {
	for range 100 {
		port = 21000 + rand.IntN(11000)
		var l net.Listener
		if l, err = net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}

func (d *daemon) pid() int { return d.cmd.Process.Pid }

// ended returns an error with the exit status if the daemon has exited.
func (d *daemon) ended() error {
	select {
	case <-d.exited:
		return fmt.Errorf("pmcd has exited (%v)", d.cmd.ProcessState)
	default:
		return nil
	}
}

// tail returns the end of the daemon's output and of its log.
func (d *daemon) tail() string {
	var s []string
	for _, f := range []string{"out", "log/pmcd.log"} {
		b, _ := os.ReadFile(filepath.Join(d.dir, f))
		if b = bytes.TrimSpace(b); len(b) > 0 {
			s = append(s, string(b[max(0, len(b)-300):]))
		}
	}
	return strings.Join(s, " | ")
}

// poll calls try until it succeeds, the daemon exits, or a minute has passed.
func (d *daemon) poll(every time.Duration, try func() error) error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(every) {
		err := try()
		if err == nil {
			return nil
		}
		if e := d.ended(); e != nil {
			return e
		}
		if time.Now().After(end) {
			return err
		}
	}
}

// ready waits until the metrics have values and all agents are ready, and returns
// the time since the start.
func (d *daemon) ready(names ...string) (time.Duration, error) {
	err := d.poll(200*time.Microsecond, func() error {
		c, err := d.open(false)
		if err != nil {
			return err
		}
		defer c.Close()
		ids, err := c.Lookup(context.Background(), names...)
		if err != nil {
			return err
		}
		var r pmapi.Result
		if err := c.Fetch(context.Background(), ids, &r); err != nil {
			return err
		}
		if names[0] == "pmcd.agent.status" {
			for _, v := range r.Sets[0].Values {
				if v.Word != 0 {
					return pdu.ErrnoNoAgent
				}
			}
		}
		_, err = count(r.Sets, true)
		return err
	})
	return time.Since(d.began), err
}

// end sends SIGTERM and returns the seconds until the daemon has ended. After a time it is killed.
func (d *daemon) end(timeout time.Duration) (seconds float64, err error) {
	from := time.Now()
	d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.exited:
	case <-time.After(timeout):
		err = fmt.Errorf("pmcd has not exited %v after SIGTERM", timeout)
		d.cmd.Process.Kill()
		<-d.exited
	}
	return time.Since(from).Seconds(), err
}

// stop ends the daemon and its child processes.
func (d *daemon) stop() {
	below := treeOf(d.pid())
	d.end(5 * time.Second)
	// Agents exit when their pipe is closed. Those of C pmcd are in its process
	// group; this pmcd has waited for its own.
	for _, pid := range below.pids() {
		for range 100 {
			if syscall.Kill(pid, 0) != nil {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	syscall.Kill(-d.pid(), syscall.SIGKILL)
	os.RemoveAll(d.dir)
}
