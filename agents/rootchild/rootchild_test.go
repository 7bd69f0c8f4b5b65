package rootchild

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/proc"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A rig has a root child in this process.
type rig struct {
	*Child
	t       *testing.T
	conf    string
	program string
	done    chan error // what Serve returns
}

// configure writes the configuration file, with PROGRAM for a program that
// echoes, and returns its agents as the daemon sees them.
func (r *rig) configure(text string) []pmcdconf.Agent {
	r.t.Helper()
	text = strings.ReplaceAll(text, "PROGRAM", r.program)
	do(r.t, os.WriteFile(r.conf, []byte(text), 0o644))
	conf, err := pmcdconf.ParseFile(r.conf, pmcdconf.Options{})
	do(r.t, err)
	return conf.Agents
}

func newRig(t *testing.T, text string) (*rig, []pmcdconf.Agent) {
	t.Helper()
	dir := t.TempDir()
	r := &rig{t: t, conf: filepath.Join(dir, "pmcd.conf"), program: file(t, filepath.Join(dir, "agent")), done: make(chan error, 1)}
	list := r.configure(text)
	c, socket, err := pair()
	do(t, err)
	go func() {
		r.done <- Serve(socket, Config{ConfigFile: r.conf, owner: me,
			HostName: func(container string) (string, error) {
				if container == "nobody" {
					return "", errors.New("no such container")
				}
				return "host of " + container, nil
			},
			Start: func(a *pmcdconf.Agent, program string, stderr *os.File) (*proc.Process, error) {
				return proc.Start(proc.Spec{Argv: a.Argv, Path: program, Pipes: a.Kind == pmcdconf.Pipe, Stderr: stderr})
			}})
	}()
	r.Child = newChild(c)
	t.Cleanup(func() { r.close() })
	return r, list
}

// close ends the root child as the end of the daemon does.
func (r *rig) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r.Close(ctx)
	select {
	case err := <-r.done:
		r.done <- err
		return err
	case <-ctx.Done():
		return errors.New("the root child does not end")
	}
}

func (r *rig) start(a pmcdconf.Agent) (*Process, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	defer cancel()
	stderr, err := proc.NewStderr(os.Stderr)
	do(r.t, err)
	defer stderr.Started()
	p, err := r.Start(ctx, &a, stderr.File())
	if err == nil {
		r.t.Cleanup(func() { r.stop(p) })
	}
	return p, err
}

func (r *rig) stop(p *Process) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	p.Stop(ctx)
}

// refused fails the test unless the agent is refused for what want says.
func (r *rig) refused(a pmcdconf.Agent, want string) {
	r.t.Helper()
	p, err := r.start(a)
	if err == nil {
		r.t.Errorf("%s was started, pid %d, want %q", a.Name, p.PID(), want)
	} else if !strings.Contains(err.Error(), want) {
		r.t.Errorf("%s: %v, want %q", a.Name, err, want)
	}
}

func echoes(t *testing.T, p *Process) {
	t.Helper()
	do(t, p.Pipes.SetReadDeadline(time.Now().Add(10*time.Second)))
	if _, err := p.Pipes.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(p.Pipes).ReadString('\n'); err != nil || line != "hello\n" {
		t.Fatalf("%q, %v", line, err)
	}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestStart(t *testing.T) {
	r, list := newRig(t, "echo 1 pipe binary PROGRAM\nsays 2 pipe binary sh -c \"exit 5\"\nsock 3 socket inet 1 cat\nbad 4 pipe binary /no/such/agent\n")
	p, err := r.start(list[0])
	do(t, err)
	echoes(t, p)
	if err := p.Pipes.SetReadDeadline(time.Now()); err != nil {
		t.Error(err)
	}
	if _, err := p.Pipes.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read after its deadline: %v", err)
	}
	select {
	case <-p.Done():
		t.Fatal("it has ended")
	default:
	}
	r.stop(p)
	<-p.Done()
	if ws := p.Status(); !ws.Exited() || ws.ExitStatus() != 0 || alive(p.PID()) {
		t.Errorf("status %v, alive %v", ws, alive(p.PID()))
	}

	p, err = r.start(list[1])
	do(t, err)
	<-p.Done()
	if ws := p.Status(); ws.ExitStatus() != 5 {
		t.Errorf("status %v, want 5", ws)
	}

	p, err = r.start(list[2])
	do(t, err)
	if p.Pipes != nil {
		t.Error("a socket agent has pipes")
	}
	<-p.Done() // its input is empty

	r.refused(list[3], "no such file")
	do(t, r.close())
}

// At a stop "now" a process that does not want to end is killed.
func TestStopNow(t *testing.T) {
	r, list := newRig(t, "stays 1 pipe binary sh -c \"trap '' TERM; echo ready; while :; do sleep 1; done\"\n")
	p, err := r.start(list[0])
	do(t, err)
	if _, err := io.ReadFull(p.Pipes, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.Stop(ctx)
	<-p.Done()
	if ws := p.Status(); ws.Signal() != syscall.SIGKILL {
		t.Errorf("status %v, want signal 9", ws)
	}
}

// What is started has been read from the file, and only root can have changed
// that and the program since.
func TestRefused(t *testing.T) {
	r, list := newRig(t, "echo 1 pipe binary PROGRAM\nother 2 pipe binary PROGRAM -x\nnothing 3 socket inet 44\n")
	r.refused(list[2], "has another line")
	evil := list[0]
	evil.Argv = []string{"/bin/sh", "-c", "echo evil"}
	r.refused(evil, "has another line for this agent")
	evil.Domain = 77
	r.refused(evil, "has another line for this agent")
	evil.Domain = 511
	r.refused(evil, "no agent has domain 511")

	// At the start of the system, once, as C pmcd.
	do(t, os.Chmod(r.conf, 0o666))
	r.refused(list[1], "pmcd.conf can be written to by others") // it was read again above
	do(t, os.Chmod(r.conf, 0o644))
	_, err := r.start(list[1])
	do(t, err)

	do(t, os.Chmod(r.program, 0o777))
	r.refused(list[1], "agent can be written to by others")
	do(t, os.Chmod(r.program, 0o755))
	do(t, os.Chmod(filepath.Dir(r.program), 0o777))
	r.refused(list[1], "can be written to by others")
	do(t, os.Chmod(filepath.Dir(r.program), 0o755))
	_, err = r.start(list[1])
	do(t, err)
	do(t, os.Remove(r.conf))
	r.refused(list[1], "no such file")
}

func TestBoot(t *testing.T) {
	r, list := newRig(t, "echo 1 pipe binary PROGRAM\n")
	do(t, os.Chmod(r.conf, 0o666))
	do(t, os.Chmod(r.program, 0o777))
	p, err := r.start(list[0])
	do(t, err)
	echoes(t, p)
	r.refused(list[0], "pmcd.conf can be written to by others")
	do(t, os.Chmod(r.conf, 0o644))
	r.refused(list[0], "agent can be written to by others")
}

// What the file had when others could change it is not started because they
// cannot any more.
func TestReadUntrusted(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "pmcd.conf")
	do(t, os.WriteFile(conf, []byte("evil 1 pipe binary true\n"), 0o644))
	do(t, os.Chmod(conf, 0o666))
	s := &server{cfg: Config{ConfigFile: conf, owner: me}, boot: time.Now()} // the minute is over
	var err error
	s.lines, err = s.read(true)
	do(t, err)
	evil := digest(&s.lines[1].agent)
	if _, _, err := s.line(1, evil); err == nil || !strings.Contains(err.Error(), "can be written to by others") {
		t.Errorf("got %v", err)
	}
	do(t, os.WriteFile(conf, []byte("good 1 pipe binary true\n"), 0o644))
	do(t, os.Chmod(conf, 0o644))
	if _, _, err := s.line(1, evil); err == nil || !strings.Contains(err.Error(), "has another line") {
		t.Errorf("got %v", err)
	}
	if a, _, err := s.line(1, digest(&s.lines[1].agent)); err != nil || a.Name != "good" {
		t.Errorf("got %v, %v", a, err)
	}
}

// An agent that is part of the program is started as that if the file of its dso
// line does not exist, at the start and after it, and whoever could change the
// place where the file would be. What has a file is not.
func TestBuiltIn(t *testing.T) {
	dir := t.TempDir()
	conf, so := filepath.Join(dir, "pmcd.conf"), file(t, filepath.Join(dir, "there.so"))
	open := filepath.Join(dir, "open")
	do(t, os.Mkdir(open, 0o755))
	do(t, os.Chmod(open, 0o777))
	text := fmt.Sprintf("a 1 dso in_init %s/none.so\nb 2 dso in_init %s\nc 3 dso out_init %s/none.so\nd 4 dso in_init %s/none.so\n",
		dir, so, dir, open)
	do(t, os.WriteFile(conf, []byte(text), 0o644))
	parsed, err := pmcdconf.ParseFile(conf, pmcdconf.Options{})
	do(t, err)
	builtIn := func(entry string) bool { return entry == "in_init" }
	for _, cfg := range []Config{
		{ConfigFile: conf, owner: me, BuiltIn: builtIn},
		{Embedded: parsed.Agents, owner: me, BuiltIn: builtIn},
	} {
		s := &server{cfg: cfg, boot: time.Now().Add(time.Hour)}
		s.lines, err = s.read(true)
		do(t, err)
		for _, when := range []string{"at the start", "later"} {
			for _, want := range []struct {
				domain  int
				program string
				err     string // later
			}{
				{1, Self, ""},
				{2, "", ""},
				{3, "", "no such file"},
				{4, Self, ""},
			} {
				a, program, err := s.line(want.domain, digest(&parsed.Agents[want.domain-1]))
				switch {
				case err != nil && (when == "at the start" || want.err == "" || !strings.Contains(err.Error(), want.err)):
					t.Errorf("%s, %q, agent %d: %v", when, cfg.ConfigFile, want.domain, err)
				case err == nil && (program != want.program || a.Domain != want.domain):
					t.Errorf("%s, %q, agent %d: got agent %d and %q", when, cfg.ConfigFile, want.domain, a.Domain, program)
				}
			}
		}
	}
	// What is compiled in has no other lines.
	s := &server{cfg: Config{Embedded: parsed.Agents[:1]}}
	s.lines, err = s.read(true)
	do(t, err)
	if _, _, err := s.line(2, digest(&parsed.Agents[1])); err == nil || !strings.Contains(err.Error(), "what is compiled in has another line") {
		t.Errorf("got %v", err)
	}
}

// A line that is new is found in the file, and what a rejected file had before
// goes on to be started.
func TestReRead(t *testing.T) {
	r, _ := newRig(t, "echo 1 pipe binary PROGRAM\n")
	list := r.configure("echo 1 pipe binary PROGRAM -n\nnew 2 pipe binary PROGRAM\n[access]\ndisallow * : store;\n")
	for _, a := range list {
		p, err := r.start(a)
		do(t, err)
		echoes(t, p)
		r.stop(p)
	}
	do(t, os.WriteFile(r.conf, []byte("broken\n"), 0o644))
	_, err := r.start(list[0])
	do(t, err)
	list[0].Argv = []string{"x"}
	r.refused(list[0], "expected domain number")
}

func TestNotMoreThanFour(t *testing.T) {
	r, list := newRig(t, "echo 1 pipe binary PROGRAM\n")
	var ps []*Process
	for range maxProcesses {
		p, err := r.start(list[0])
		do(t, err)
		ps = append(ps, p)
	}
	r.refused(list[0], "there are 4 processes")
	r.stop(ps[0])
	_, err := r.start(list[0])
	do(t, err)
}

func fdList() []os.DirEntry {
	list, _ := os.ReadDir("/proc/self/fd")
	return list
}

// Nothing is left of agents that have been started and stopped.
func TestManyStarts(t *testing.T) {
	r, list := newRig(t, "echo 1 pipe binary PROGRAM\nends 2 pipe binary true\n")
	one := func(i int) {
		t.Helper()
		stderr, err := proc.NewStderr(io.Discard)
		do(t, err)
		p, err := r.Start(t.Context(), &list[i%2], stderr.File())
		stderr.Started()
		do(t, err)
		if i%2 == 0 {
			echoes(t, p)
		} else {
			<-p.Done()
		}
		r.stop(p)
		stderr.Close()
	}
	one(0)
	fds, goroutines := len(fdList()), runtime.NumGoroutine()
	for i := range 1000 {
		one(i)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		fdsNow, goroutinesNow := len(fdList()), runtime.NumGoroutine()
		if fdsNow <= fds && goroutinesNow <= goroutines {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d descriptors and %d goroutines, before it was %d and %d", fdsNow, goroutinesNow, fds, goroutines)
		}
	}
}

// The end of the daemon is that of all agents, and of what they have started.
func TestDaemonGone(t *testing.T) {
	r, list := newRig(t, "echo 1 pipe binary PROGRAM\nstays 2 pipe binary sh -c \"trap '' TERM HUP; sleep 100 & echo $!; while :; do sleep 1; done\"\n")
	var pids []int
	for _, a := range list {
		p, err := r.start(a)
		do(t, err)
		pids = append(pids, p.PID())
		if a.Domain == 2 {
			var pid int
			if _, err := fmt.Fscan(p.Pipes, &pid); err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	began := time.Now()
	do(t, r.close())
	if took := time.Since(began); took > 2*endTime {
		t.Errorf("took %v", took)
	}
	for _, pid := range pids {
		for end := time.Now().Add(5 * time.Second); alive(pid) && !zombie(pid); {
			if time.Now().After(end) {
				t.Fatalf("process %d lives on", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// zombie reports whether a process waits for whoever inherited it.
func zombie(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Contains(string(stat), ") Z ")
}

// Without the root child agents go on, but none can be started.
func TestLost(t *testing.T) {
	c, socket, err := pair()
	do(t, err)
	other, err := newConn(socket)
	do(t, err)
	child := newChild(c)
	var list []*os.File // of the agent
	go func() {
		m, files, _ := other.receive()
		closeAll(files)
		inR, inW, _ := os.Pipe()
		outR, outW, _ := os.Pipe()
		list = []*os.File{inR, outW}
		withFDs([]*os.File{outR, inW}, func(fds []int) error {
			return other.send(message{kind: started, id: m.id, pid: 4711}, fds...)
		})
		closeAll([]*os.File{outR, inW})
	}()
	a := pmcdconf.Agent{Domain: 1}
	p, err := child.Start(t.Context(), &a, os.Stderr)
	do(t, err)
	other.Close()
	<-child.Lost()
	if _, err := child.Start(t.Context(), &a, os.Stderr); !errors.Is(err, ErrLost) {
		t.Errorf("got %v", err)
	}
	select {
	case <-p.Done():
		t.Error("the agent has ended, for all that is known")
	default:
	}
	go io.Copy(list[1], list[0])
	echoes(t, p)
	p.Stop(t.Context())
	<-p.Done()
	closeAll(list)
}

// One who does not wait is not given what comes later, and it does not run on.
func TestStartAbandoned(t *testing.T) {
	c, socket, err := pair()
	do(t, err)
	other, err := newConn(socket)
	do(t, err)
	child := newChild(c)
	defer other.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := child.Start(ctx, &pmcdconf.Agent{Domain: 1}, os.Stderr); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	m, files, err := other.receive()
	do(t, err)
	closeAll(files)
	do(t, other.send(message{kind: started, id: m.id, pid: 4711}))
	if next, _, err := other.receive(); err != nil || next.kind != stop || next.id != m.id {
		t.Errorf("got %+v, %v", next, err)
	}
}

// It is asked what the host is called in a container, and nothing else.
func TestHostName(t *testing.T) {
	r, _ := newRig(t, "echo 1 pipe binary PROGRAM\n")
	if name, err := r.HostName(t.Context(), "box"); name != "host of box" || err != nil {
		t.Errorf("got %q, %v", name, err)
	}
	for container, want := range map[string]string{
		"nobody": "no such container", "": "nobody can be asked", strings.Repeat("x", 256): "nobody can be asked",
	} {
		if name, err := r.HostName(t.Context(), container); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a name of %d bytes: %q, %v, want %s", len(container), name, err, want)
		}
	}
	do(t, r.close())
	if _, err := r.HostName(t.Context(), "box"); !errors.Is(err, ErrLost) {
		t.Errorf("without root child: %v", err)
	}
}

// A process of root's does not write to whatever the daemon has opened: at the
// other end of a socket may be one that goes by who writes (SO_PASSCRED).
func TestStderrIsAPipe(t *testing.T) {
	r, list := newRig(t, "says 1 pipe binary sh -c \"echo evil >&2\"\n")
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	do(t, err)
	own, socket := os.NewFile(uintptr(ends[0]), "own"), os.NewFile(uintptr(ends[1]), "socket")
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	do(t, err)
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	do(t, err)
	defer closeAll([]*os.File{own, socket, null, file})
	for _, f := range []*os.File{socket, null, file} {
		if p, err := r.Start(t.Context(), &list[0], f); err == nil || !strings.Contains(err.Error(), "is no pipe") {
			t.Errorf("%s: %v", f.Name(), err)
			if err == nil {
				r.stop(p)
			}
		}
	}
}

// Nothing that the daemon sends makes the root child do more than it should, or
// keep anything.
func TestHostile(t *testing.T) {
	r, list := newRig(t, "echo 1 pipe binary PROGRAM\n")
	p, err := r.start(list[0])
	do(t, err)
	before, _ := os.ReadDir("/proc/self/fd")
	goroutines := runtime.NumGoroutine()
	pipe, err := proc.NewStderr(os.Stderr)
	do(t, err)
	defer pipe.Close()
	raw, err := r.conn.SyscallConn()
	do(t, err)
	send := func(b []byte, fds ...int) {
		t.Helper()
		var oob []byte
		if len(fds) > 0 {
			oob = syscall.UnixRights(fds...)
		}
		var err error
		if cerr := raw.Write(func(fd uintptr) bool {
			err = syscall.Sendmsg(int(fd), b, oob, nil, 0)
			return err != syscall.EAGAIN
		}); cerr != nil || err != nil {
			t.Fatal(cerr, err)
		}
	}
	fd := int(pipe.File().Fd())
	good := message{kind: start, id: 99, domain: 1, digest: digest(&list[0])}
	for i := range 2000 {
		send([]byte("\x00"))
		send([]byte("exec /bin/sh"), fd, fd)
		send(make([]byte, 20000))
		send(good.append(nil))                 // no descriptor
		send(good.append(nil), fd, fd)         // one too many
		send(good.append(nil), fd, fd, fd, fd) // more than there is room for
		send((&message{kind: start, id: uint32(1000 + i), domain: 1}).append(nil), fd)
		send((&message{kind: stop, id: uint32(i + 1000)}).append(nil), fd)
		send((&message{kind: stop, id: uint32(i + 1000), now: true}).append(nil))
		send((&message{kind: started, id: 1, pid: 1}).append(nil))
		send((&message{kind: gone, id: 1}).append(nil))
		send((&message{kind: named, id: 1, text: "x"}).append(nil))
		send((&message{kind: ask, id: uint32(i)}).append(nil))
		send((&message{kind: ask, id: 1, text: strings.Repeat("x", 900)}).append(nil))
		send((&message{kind: ask, id: uint32(i), text: "box"}).append(nil))
	}
	echoes(t, p) // it is still there
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		q, err := r.start(list[0]) // the last of those above are being looked at
		if err == nil {
			r.stop(q)
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	var after []os.DirEntry
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		after, _ = os.ReadDir("/proc/self/fd")
		if len(after) <= len(before)+1 && runtime.NumGoroutine() <= goroutines+2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d descriptors and %d goroutines, before it was %d and %d", len(after), runtime.NumGoroutine(), len(before), goroutines)
		}
	}
	do(t, r.close())
}

// Descriptor 3 may be anything if somebody starts the program by that name.
func TestServeNoSocket(t *testing.T) {
	null, err := os.Open("/dev/null")
	do(t, err)
	if err := Serve(null, Config{}); err == nil {
		t.Error("served /dev/null")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	do(t, err)
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	do(t, err)
	if err := Serve(f, Config{}); err == nil {
		t.Error("served a listener")
	}
}
