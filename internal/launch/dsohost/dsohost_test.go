package dsohost_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/launch/dsohost"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

const pmdas = "/var/lib/pcp/pmdas/"

// libc returns the path of the C library, a shared object that is not a PMDA.
func libc(t *testing.T) string {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		if _, path, ok := strings.Cut(strings.TrimSpace(line), "/"); ok && strings.Contains(path, "libc.so") {
			return "/" + path
		}
	}
	t.Fatalf("no libc in\n%s", maps)
	return ""
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	whole, err := os.ReadFile(libc(t))
	if err != nil {
		t.Fatal(err)
	}
	executable := slices.Clone(whole[:64])
	executable[16] = 2                     // e_type: ET_EXEC
	copy(executable[40:], make([]byte, 8)) // e_shoff
	copy(executable[56:], []byte{0, 0, 64, 0, 0, 0, 0, 0})
	copy(executable[32:], make([]byte, 8)) // e_phoff
	cutInside := slices.Clone(whole[:4096])
	copy(cutInside[40:], make([]byte, 8)) // e_shoff
	copy(cutInside[60:], make([]byte, 4)) // e_shnum, e_shstrndx
	foreign := slices.Clone(whole)
	foreign[18], foreign[19] = 22, 0 // e_machine: EM_S390
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{libc(t), ""},
		{filepath.Join(dir, "none"), "no such file"},
		{dir, "a directory"},
		{fifo, "a special file"},
		{write("empty", nil), "not an ELF file"},
		{write("script", []byte("#!/bin/sh\n")), "not an ELF file"},
		{write("short", whole[:20]), "not an ELF file"},
		{write("executable", executable), "ET_EXEC"},
		{write("foreign", foreign), "not a shared object for this machine: it is for EM_S390"},
		{write("cut", whole[:len(whole)/2]), "not an ELF file, or a truncated one"},
		{write("cut inside", cutInside), "cut inside is a truncated shared object: it has 4096 bytes, and its header refers to more"},
	} {
		t.Run(filepath.Base(c.path), func(t *testing.T) {
			err := dsohost.Check(c.path)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Check(%s): %v, want %q", c.path, err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), c.path) {
				t.Errorf("%q does not name %s", err, c.path)
			}
		})
	}
	if err := dsohost.Check(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
}

// A host is a host process and its log.
type host struct {
	p   *child.Process
	log *os.File
}

func start(t *testing.T, d dsohost.DSO) host {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	spec, err := dsohost.Spec(d, log)
	if err != nil {
		t.Fatal(err)
	}
	p, err := child.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop(p)
		log.Close()
	})
	return host{p, log}
}

func stop(p *child.Process) {
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Hangs)
	defer cancel()
	p.Stop(ctx)
}

func (h host) text() string {
	b, _ := os.ReadFile(h.log.Name())
	return string(b)
}

func (h host) dial(t *testing.T) (*wire.Client, int) {
	t.Helper()
	iface, err := dsohost.Ready(t.Context(), h.p.Pipes)
	if err != nil {
		t.Fatalf("%v\n%s", err, h.text())
	}
	c, err := wire.Dial(t.Context(), h.p.Pipes, wire.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, h.text())
	}
	t.Cleanup(func() { c.Close() })
	return c, iface
}

// Errors that need no PMDA: Ready returns the text that the host sends.
func TestHostErrors(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken\n.so")
	whole, err := os.ReadFile(libc(t))
	if err != nil {
		t.Fatal(err)
	}
	whole[16] = 1 // e_type: ET_REL
	if err := os.WriteFile(broken, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, entry, want string
		status            int
	}{
		{libc(t), "no_init", "has no function no_init", 1},
		{libc(t), "abort", "is not linked with libpcp_pmda and libpcp", 1},
		{broken, "no_init", "cannot load the DSO: ", 1},
	} {
		h := start(t, dsohost.DSO{Name: "odd", Domain: 250, Entry: c.entry, Path: c.path})
		wantReadyError(t, h, c.entry, c.want, c.status)
	}
}

// wantReadyError fails the test unless Ready returns an error that contains want and
// the host exits with status.
func wantReadyError(t *testing.T, h host, name, want string, status int) {
	t.Helper()
	_, err := dsohost.Ready(t.Context(), h.p.Pipes)
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %v, want %q\n%s", name, err, want, h.text())
	}
	if <-h.p.Done(); h.p.Status().ExitStatus() != status {
		t.Errorf("%s: ended with %v, want status %d", name, h.p.Status(), status)
	}
}

// oddDSO builds testdata/odd.c.
func oddDSO(t *testing.T) string {
	t.Helper()
	testutil.NeedPeer(t, "/usr/include/pcp/pmda.h")
	path := filepath.Join(t.TempDir(), "pmda_odd.so")
	cmd := exec.Command("cc", "-shared", "-fPIC", "-o", path, "testdata/odd.c", "-lpcp_pmda", "-lpcp")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func TestPeerInitFails(t *testing.T) {
	path := oddDSO(t)
	for _, c := range []struct {
		entry, want string
		status      int
	}{
		{"fails_init", "fails_init of " + path + " failed: No permission to perform requested operation", 1},
		{"forgets_init", "has not set up an agent: no call of pmdaDSO", 1},
		{"future_init", "wants PMDA interface 8; 2 to 7 are known", 1},
		{"old_init", "wants PMAPI version 1;", 1},
		{"crashes_init", "while the DSO was loaded or initialised: EOF", -1},
		{"exits_init", "while the DSO was loaded or initialised: EOF", 7},
	} {
		h := start(t, dsohost.DSO{Name: "odd", Domain: 250, Entry: c.entry, Path: path})
		wantReadyError(t, h, c.entry, c.want, c.status)
	}
	h := start(t, dsohost.DSO{Name: "odd", Domain: 250, Entry: "waits_init", Path: path})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := dsohost.Ready(ctx, h.p.Pipes); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waits_init: %v", err)
	}
	h.p.Pipes.Close()
	syscall.Kill(h.p.PID(), syscall.SIGKILL)
}

// PDUs are not disturbed by a DSO that writes to the standard output and starts
// programs that read the standard input and write to the standard output.
func TestPeerNoisy(t *testing.T) {
	h := start(t, dsohost.DSO{Name: "a/pmcd", Domain: 250, Entry: "noisy_init", Path: oddDSO(t)})
	c, iface := h.dial(t)
	if iface != 2 {
		t.Errorf("interface %d, want 2", iface)
	}
	id := pdu.NewPMID(250, 0, 0)
	for want := uint32(1); want < 5; want++ {
		var r pdu.Result
		if err := transporttest.Do(c, agents.Origin{}, &pdu.Fetch{PMIDs: []pdu.PMID{id}}, &r); err != nil {
			t.Fatalf("%v\n%s", err, h.text())
		}
		if vs := r.Sets[0].Values; len(vs) != 1 || vs[0].Word != want {
			t.Fatalf("fetch %d: %+v\n%s", want, r.Sets[0], h.text())
		}
	}
	for text, want := range map[string]int{"odd: stdout in init\n": 1, "odd: to stdout\n": 4, "odd: by a program\n": 4} {
		if n := strings.Count(h.text(), text); n != want {
			t.Errorf("%q is %d times in the log, want %d:\n%s", text, n, want, h.text())
		}
	}

	// The process as ps(1) shows it.
	proc := func(name string) string {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", h.p.PID(), name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if argv0, _, _ := strings.Cut(proc("cmdline"), "\x00"); argv0 != "pmcd-dso: a_pmcd" {
		t.Errorf("argv[0] is %q", argv0)
	}
	if comm := proc("comm"); comm != "pmcd-dso\n" {
		t.Errorf("the name of the process is %q", comm)
	}
	if status := proc("status"); !strings.Contains(status, "\nThreads:\t1\n") {
		t.Errorf("the host does not have one thread:\n%s", status)
	}
}

// A host that is started as root with a user initialises the DSO as root, and
// answers requests as the user.
func TestPeerUser(t *testing.T) {
	path := oddDSO(t)
	if os.Geteuid() != 0 {
		h := start(t, dsohost.DSO{Name: "odd", Domain: 250, Entry: "who_init", Path: path, User: "root"})
		wantReadyError(t, h, "who_init", "cannot become user root: Operation not permitted", 1)
		testutil.NeedRoot(t)
	}
	h := start(t, dsohost.DSO{Name: "odd", Domain: 250, Entry: "who_init", Path: path, User: "nosuchuser"})
	wantReadyError(t, h, "who_init", "cannot become user nosuchuser: there is no such user", 1)

	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := nobody.GroupIds()
	if err != nil {
		t.Fatal(err)
	}
	h = start(t, dsohost.DSO{Name: "odd", Domain: 250, Entry: "who_init", Path: path, User: "nobody"})
	c, _ := h.dial(t)
	var r pdu.Result
	if err := transporttest.Do(c, agents.Origin{}, &pdu.Fetch{PMIDs: []pdu.PMID{pdu.NewPMID(250, 0, 0)}}, &r); err != nil {
		t.Fatalf("%v\n%s", err, h.text())
	}
	for _, want := range []string{"odd: init as 0:0\n",
		fmt.Sprintf("odd: fetch as %s:%s and %d groups, root can be regained: 0\n", nobody.Uid, nobody.Gid, len(groups))} {
		if !strings.Contains(h.text(), want) {
			t.Errorf("no %q in\n%s", want, h.text())
		}
	}
}

// A host has only the standard descriptors and those for PDUs. It does not end by
// signals that are meant for pmcd, and ends when its pipe is closed.
func TestPeerHost(t *testing.T) {
	testutil.NeedPeer(t, pmdas+"sample/pmda_sample.so")
	if err := child.SetCloexecAll(); err != nil {
		t.Fatal(err)
	}
	h := start(t, dsohost.DSO{Name: "sample", Domain: 29, Entry: "sample_init", Path: pmdas + "sample/pmda_sample.so"})
	c, iface := h.dial(t)
	if iface != 7 {
		t.Errorf("interface %d, want 7", iface)
	}
	dir := fmt.Sprintf("/proc/%d/fd", h.p.PID())
	fds, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, fd := range fds {
		to, _ := os.Readlink(filepath.Join(dir, fd.Name()))
		if strings.HasPrefix(to, "pipe:") {
			to = "pipe"
		}
		got = append(got, fd.Name()+" "+to)
	}
	log, err := filepath.EvalSymlinks(h.log.Name())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"0 /dev/null", "1 " + log, "2 " + log, "3 pipe", "4 pipe"}; !slices.Equal(got, want) {
		t.Errorf("descriptors %q, want %q", got, want)
	}
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE} {
		if err := syscall.Kill(h.p.PID(), sig); err != nil {
			t.Fatal(err)
		}
	}
	transporttest.Test(t, c, pdu.NewPMID(29, 0, 10), pdu.NewPMID(29, 0, 6))
	c.Close()
	select {
	case <-h.p.Done():
		if ws := h.p.Status(); ws.ExitStatus() != 0 {
			t.Errorf("ended with %v", ws)
		}
	case <-time.After(testutil.Hangs):
		t.Error("the host still runs after its pipe was closed")
	}
}

// A crash of the agent ends its host, and requests fail.
func TestPeerCrash(t *testing.T) {
	testutil.NeedPeer(t, pmdas+"sample/pmda_sample.so")
	h := start(t, dsohost.DSO{Name: "sample", Domain: 29, Entry: "sample_init", Path: pmdas + "sample/pmda_sample.so"})
	c, _ := h.dial(t)
	if err := syscall.Kill(h.p.PID(), syscall.SIGSEGV); err != nil {
		t.Fatal(err)
	}
	<-h.p.Done()
	if ws := h.p.Status(); !ws.Signaled() || ws.Signal() != syscall.SIGSEGV {
		t.Errorf("ended with %v", ws)
	}
	if err := transporttest.Do(c, agents.Origin{}, &pdu.DescReq{PMID: pdu.NewPMID(29, 0, 10)}, new(pdu.Desc)); err == nil {
		t.Error("the agent still answers")
	}
	if errors.Is(c.Err(), io.EOF) {
		t.Error("got io.EOF, want an error that says that a reply is missing")
	}
}
