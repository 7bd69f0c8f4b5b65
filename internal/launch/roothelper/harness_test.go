package roothelper

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pmcdconf"
)

// Files of the tests are writable only by their owner, whatever the umask of the user is.
func TestMain(m *testing.M) {
	syscall.Umask(0o022)
	os.Exit(m.Run())
}

// A harness runs a root helper in this process.
type harness struct {
	*Client
	t       *testing.T
	conf    string
	program string
	done    chan error // result of Serve
}

// configure writes the configuration file and returns its agents. PROGRAM in the
// text stands for a program that copies its input to its output.
func (r *harness) configure(text string) []pmcdconf.Agent {
	r.t.Helper()
	text = strings.ReplaceAll(text, "PROGRAM", r.program)
	must(r.t, os.WriteFile(r.conf, []byte(text), 0o644))
	conf, err := pmcdconf.ParseFile(r.t.Context(), r.conf, pmcdconf.Options{})
	must(r.t, err)
	return conf.Agents
}

func newHarness(t *testing.T, text string) (*harness, []pmcdconf.Agent) {
	t.Helper()
	dir := t.TempDir()
	r := &harness{t: t, conf: filepath.Join(dir, "pmcd.conf"), program: writeExecutable(t, filepath.Join(dir, "agent")), done: make(chan error, 1)}
	list := r.configure(text)
	c, socket, err := pair()
	must(t, err)
	go func() {
		r.done <- Serve(socket, Config{ConfigFile: r.conf, owner: testOwner,
			HostName: func(container string) (string, error) {
				if container == "nobody" {
					return "", errors.New("no such container")
				}
				return "host of " + container, nil
			},
			ContainerProcess: func(container string) (int, error) {
				if container == "nobody" {
					return 0, errors.New("no such container")
				}
				return 4711, nil
			},
			Start: func(a *pmcdconf.Agent, program string, stderr *os.File) (AgentProcess, *child.Pipes, error) {
				return started(child.Start(child.Spec{Argv: a.Argv, Path: program, Pipes: a.Kind == pmcdconf.Pipe, Stderr: stderr}))
			}})
	}()
	r.Client = newClient(c, helperStopTimeout)
	t.Cleanup(func() { r.close() })
	return r, list
}

// started has the results of Config.Start from those of child.Start.
func started(p *child.Process, err error) (AgentProcess, *child.Pipes, error) {
	if err != nil {
		return nil, nil, err
	}
	return p, p.Pipes, nil
}

// close ends the root helper, as the end of the daemon does.
func (r *harness) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Hangs)
	defer cancel()
	r.Close(ctx)
	select {
	case err := <-r.done:
		r.done <- err
		return err
	case <-ctx.Done():
		return errors.New("the root helper does not end")
	}
}

func (r *harness) start(a pmcdconf.Agent) (*Process, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), testutil.Hangs)
	defer cancel()
	stderr, err := child.NewStderr(os.Stderr)
	must(r.t, err)
	defer stderr.Started()
	p, err := r.Start(ctx, &a, stderr.File())
	if err == nil {
		r.t.Cleanup(func() { r.stop(p) })
	}
	return p, err
}

func (r *harness) stop(p *Process) {
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Hangs)
	defer cancel()
	p.Stop(ctx)
}

// wantRefused fails the test unless starting the agent fails with an error that
// contains want.
func (r *harness) wantRefused(a pmcdconf.Agent, want string) {
	r.t.Helper()
	p, err := r.start(a)
	if err == nil {
		r.t.Errorf("%s was started as process %d, want error %q", a.Name, p.PID(), want)
	} else if !strings.Contains(err.Error(), want) {
		r.t.Errorf("%s: %v, want %q", a.Name, err, want)
	}
}

func checkEcho(t *testing.T, p *Process) {
	t.Helper()
	must(t, p.Pipes.SetReadDeadline(time.Now().Add(testutil.Hangs)))
	if _, err := p.Pipes.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(p.Pipes).ReadString('\n'); err != nil || line != "hello\n" {
		t.Fatalf("%q, %v", line, err)
	}
}

// alive reports whether a process runs or was not reaped.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func fdList() []os.DirEntry {
	list, _ := os.ReadDir("/proc/self/fd")
	return list
}
