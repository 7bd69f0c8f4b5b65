package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Transport is a way for a client to reach a daemon.
type Transport int

const (
	TCP4 Transport = iota
	TCP6
	Unix
)

// Transports are all ways, in the order in which tests use them.
var Transports = []Transport{TCP4, TCP6, Unix}

func (tr Transport) String() string { return [...]string{"tcp4", "tcp6", "unix"}[tr] }

// Host is the host specification that makes a client use the transport.
func (d *Daemon) Host(tr Transport) string {
	switch tr {
	case TCP6:
		return "pcp://[::1]:" + strconv.Itoa(d.Port)
	case Unix:
		return "unix://" + d.Sock
	}
	// Not "localhost": that is ::1 first on some machines.
	return "127.0.0.1:" + strconv.Itoa(d.Port)
}

// Output is what a client did.
type Output struct {
	Cmd            string
	Stdout, Stderr string
	Code           int // exit status, or -1 for a signal
}

func (o Output) String() string {
	s := o.Stdout
	if o.Stderr != "" {
		s += "--- stderr:\n" + o.Stderr
	}
	return s + fmt.Sprintf("--- exit status %d\n", o.Code)
}

// clientTimeout is how long any client, or a script of several, may take. The slowest take seconds.
const clientTimeout = 5 * time.Minute

// Client is a command to run against a daemon. In Args, Env and Stdin these
// stand for what differs from one daemon to another, and come back in the
// output: {host} (host specification), {port}, {dir} (of the daemon).
type Client struct {
	Args  []string
	Env   []string
	Stdin string
}

// Run runs a client against the daemon, in the daemon's directory and with its
// PCP_TMP_DIR and so on.
func (d *Daemon) Run(ctx context.Context, tr Transport, c Client) (Output, error) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	o, err := output(ctx, d.command(ctx, tr, c))
	if err != nil {
		return o, err
	}
	o.Stdout, o.Stderr = d.Anonymous(tr, o.Stdout), d.Anonymous(tr, o.Stderr)
	return o, nil
}

// output runs a command and what it starts, which ends with ctx.
func output(ctx context.Context, cmd *exec.Cmd) (Output, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// Scripts start further programs, which must end with them.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second // what a script leaves behind may take a while to let go of its output
	err := cmd.Run()
	o := Output{Cmd: strings.Join(cmd.Args, " "), Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}
	if ctx.Err() != nil {
		return o, fmt.Errorf("%s: %w\n%s", o.Cmd, ctx.Err(), o)
	}
	if ee := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ee) {
		return o, fmt.Errorf("%s: %w", o.Cmd, err)
	}
	return o, nil
}

// Fill puts what stands for the daemon (see Client) into a text.
func (d *Daemon) Fill(tr Transport, s string) string {
	return strings.NewReplacer("{host}", d.Host(tr), "{port}", strconv.Itoa(d.Port), "{dir}", d.Dir).Replace(s)
}

// Anonymous is the inverse of Fill: output must not tell which daemon it was.
func (d *Daemon) Anonymous(tr Transport, s string) string {
	s = strings.NewReplacer(d.Host(tr), "{host}", d.Sock, "{dir}/sock", d.Dir, "{dir}").Replace(s)
	return regexp.MustCompile(`\b`+strconv.Itoa(d.Port)+`\b`).ReplaceAllString(s, "{port}")
}

func (d *Daemon) command(ctx context.Context, tr Transport, c Client) *exec.Cmd {
	args := make([]string, len(c.Args))
	for i, a := range c.Args {
		args[i] = d.Fill(tr, a)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	if path, err := lookPath(args[0]); err == nil {
		cmd.Path, cmd.Err = path, nil
	}
	cmd.Dir, cmd.Env = d.Dir, d.env()
	for _, e := range c.Env {
		cmd.Env = append(cmd.Env, d.Fill(tr, e))
	}
	cmd.Stdin = strings.NewReader(d.Fill(tr, c.Stdin))
	return cmd
}

// Background starts a program that serves until the test ends (pmproxy), and
// waits until ready returns nil. It fails the test if the program does not
// start or ends early.
func (d *Daemon) Background(tb testing.TB, c Client, ready func() error) {
	tb.Helper()
	cmd := d.command(context.Background(), TCP4, c)
	out, err := os.CreateTemp(d.Dir, "background")
	if err != nil {
		tb.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	exited := make(chan struct{})
	if err := StartAndWait(cmd, exited); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		select {
		case <-exited:
			tb.Errorf("%s ended by itself: %v", cmd, cmd.ProcessState)
		default:
			cmd.Process.Signal(syscall.SIGTERM)
		}
		select {
		case <-exited:
		case <-time.After(stopTimeout):
			tb.Errorf("%s does not end", cmd)
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-exited
		}
		if tb.Failed() {
			text, _ := os.ReadFile(out.Name())
			tb.Logf("%s:\n%s", cmd, text)
		}
	})
	if !Until(startTimeout, func() bool { err = ready(); return err == nil }) {
		tb.Fatalf("%s is not ready: %v", cmd, err)
	}
}

// lookPath finds PCP's programs, those that are not in PATH too.
func lookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	var err error
	for _, dir := range []string{"/usr/bin/", "/usr/lib/pcp/bin/", "/bin/"} {
		var p string
		if p, err = exec.LookPath(dir + name); err == nil {
			return p, nil
		}
	}
	return "", err
}
