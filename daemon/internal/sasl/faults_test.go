package sasl_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/sasl"
	"github.com/gopcp/pmcd/internal/saslhelper"
	"github.com/gopcp/pmcd/internal/testutil"
)

// children returns the processes of logins of the last helper.
func (h *harness) children() []int {
	if len(h.procs) == 0 {
		return nil
	}
	return testutil.Children(h.procs[len(h.procs)-1].PID())
}

// wantChildren waits until n logins have processes.
func (h *harness) wantChildren(n int) {
	h.t.Helper()
	testutil.Eventually(h.t, fmt.Sprintf("%d processes of logins run", n), func() bool { return len(h.children()) == n })
}

func (h *harness) wantLog(text string) {
	h.t.Helper()
	testutil.Eventually(h.t, "the log has "+text, func() bool { return len(h.log.With(text)) > 0 })
}

// wantLogin logs in with the right password.
func (h *harness) wantLogin() {
	h.t.Helper()
	if _, user, err := h.logIn(plain("alice", password)); user != "alice" {
		h.t.Errorf("login: user %q, %v\n%+v", user, err, h.log.All())
	}
}

// A process that is killed ends its login only.
func TestPeerChildKilled(t *testing.T) {
	h := newHarness(t, database, nil)
	a := h.begin(login("a"))
	h.challenge(a, "LOGIN")
	pids := h.children()
	if len(pids) != 1 {
		t.Fatalf("the logins have the processes %v, want one", pids)
	}
	b := h.begin(login("b"))
	h.challenge(b, "LOGIN")
	syscall.Kill(pids[0], syscall.SIGSEGV)
	if _, _, _, err := a.Step(t.Context(), []byte("alice")); code(err) != -21345 {
		t.Errorf("the login whose process was killed: %v", err)
	}
	h.wantLog("the process of a login was ended by signal 11")
	h.challenge(b, "alice")
	if _, done, user, err := b.Step(t.Context(), []byte(password)); !done || user != "alice" {
		t.Errorf("the other login: %v, %q, %v", done, user, err)
	}
	h.wantChildren(0)
}

// When the helper is killed its logins end, and the next login starts another one.
func TestPeerHelperKilled(t *testing.T) {
	h := newHarness(t, database, nil)
	e := h.begin(login("a"))
	h.challenge(e, "LOGIN")
	pids := h.children()
	syscall.Kill(h.procs[0].PID(), syscall.SIGKILL)
	for _, pid := range pids {
		testutil.WaitEnded(t, pid)
	}
	if _, _, _, err := e.Step(t.Context(), []byte("alice")); code(err) != -21345 {
		t.Errorf("the login of the helper that was killed: %v", err)
	}
	h.wantLog("the SASL helper has ended: ended by signal killed; the next login starts it again")
	h.wantLogin()

	// A helper that dies again and again is not started for each login.
	for range 10 {
		p := h.procs[len(h.procs)-1]
		syscall.Kill(p.PID(), syscall.SIGKILL)
		<-p.Done()
		for _, _, err := h.logIn(plain("alice", password)); err != nil; _, _, err = h.logIn(plain("alice", password)) {
			if code(err) != -21345 {
				t.Fatal(err)
			}
			if strings.Contains(err.Error(), "the SASL helper has ended") {
				if n := len(h.procs); n > 4 {
					t.Errorf("%d helpers were started before there was a pause", n)
				}
				h.Restart() // ends the pause
				h.wantLogin()
				return
			}
		}
	}
	t.Errorf("there was no pause")
}

// A helper that is stopped is replaced, and ended.
func TestPeerHelperStopped(t *testing.T) {
	h := newHarness(t, database, func(opt *sasl.Options, _ *saslhelper.Options) { opt.Timeout = 5 * time.Second })
	h.wantLogin()
	syscall.Kill(h.procs[0].PID(), syscall.SIGSTOP)
	if _, _, err := h.logIn(plain("alice", password)); code(err) != -21345 || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("with a helper that is stopped: %v", err)
	}
	h.wantLogin()
	testutil.WaitEnded(t, h.procs[0].PID())
}

// A process that hangs in the middle of a login is ended, and others log in meanwhile. A login
// goes on if the helper hangs.
func TestPeerChildStopped(t *testing.T) {
	h := newHarness(t, database, func(opt *sasl.Options, _ *saslhelper.Options) { opt.Timeout = 5 * time.Second })
	e := h.begin(login("a"))
	h.challenge(e, "LOGIN")
	pids := h.children()
	if len(pids) != 1 {
		t.Fatalf("processes %v, want one", pids)
	}
	syscall.Kill(pids[0], syscall.SIGSTOP)
	stopped := make(chan error, 1)
	go func() {
		_, _, _, err := e.Step(t.Context(), []byte("alice"))
		stopped <- err
	}()
	h.wantLogin()
	if err := <-stopped; code(err) != -21345 && code(err) != -12353 {
		t.Errorf("the login whose process is stopped: %v", err)
	}
	testutil.WaitEnded(t, pids[0])

	e = h.begin(login("a"))
	h.challenge(e, "LOGIN")
	h.challenge(e, "alice")
	syscall.Kill(h.procs[0].PID(), syscall.SIGSTOP)
	if _, done, user, err := e.Step(t.Context(), []byte(password)); !done || user != "alice" {
		t.Errorf("the login whose helper is stopped: user %q, %v", user, err)
	}
}

// Close ends logins in all states.
func TestPeerClose(t *testing.T) {
	h := newHarness(t, database, func(opt *sasl.Options, _ *saslhelper.Options) { opt.MaxLogins = 3 })
	var wg sync.WaitGroup
	began := make(chan bool, 100)
	for i := range 20 {
		wg.Go(func() {
			for {
				e, _, err := h.Begin(t.Context(), login(strings.Repeat("a", i%5)))
				if err != nil {
					return
				}
				select {
				case began <- true:
				default:
				}
				_, _, _, err = e.Step(t.Context(), []byte("LOGIN"))
				if err != nil && code(err) == 0 {
					return
				}
				e.Close()
			}
		})
	}
	for range 10 {
		<-began
	}
	h.Close()
	wg.Wait()
	if n := h.Logins(); n != 0 {
		t.Errorf("%d logins are under way", n)
	}
}

// A configuration that is rejected fails all logins, until there is another one and Restart.
func TestPeerRejected(t *testing.T) {
	h := newHarness(t, "no separator\n", nil)
	if err := h.Available(); err != nil {
		t.Errorf("Available: %v", err)
	}
	for range 2 {
		if _, _, err := h.logIn(plain("alice", password)); code(err) != -22 {
			t.Errorf("got %v, want -22", err)
		}
	}
	h.wantLog("Failed to start authenticating server: ")
	h.configure(database)
	h.Restart()
	h.wantLogin()
	h.configure(database + "mech_list: nonesuch\n")
	h.Restart()
	if _, _, err := h.logIn(plain("alice", password)); code(err) != -21348 {
		t.Errorf("mech_list names what does not exist: %v", err)
	}
}

// Another configuration is read by the helper after Restart. Logins that are under way go on.
func TestPeerRestart(t *testing.T) {
	h := newHarness(t, database+"mech_list: plain login\n", nil)
	mechs := func() string {
		t.Helper()
		e, mechs, err := h.Begin(t.Context(), login("a"))
		if err != nil {
			t.Fatal(err)
		}
		e.Close()
		return mechs
	}
	old := h.begin(login("b"))
	h.challenge(old, "LOGIN")
	h.configure(database + "mech_list: scram-sha-256\n")
	if got := mechs(); got != "PLAIN LOGIN" {
		t.Errorf("before Restart: %q", got)
	}
	h.Restart()
	if got := mechs(); got != "SCRAM-SHA-256" {
		t.Errorf("after Restart: %q", got)
	}
	h.challenge(old, "alice")
	if _, done, user, err := old.Step(t.Context(), []byte(password)); !done || user != "alice" {
		t.Errorf("the old login: %v, %q, %v", done, user, err)
	}
	testutil.WaitEnded(t, h.procs[0].PID())
	if len(h.procs) != 2 || !testutil.Running(h.procs[1].PID()) {
		t.Errorf("%d helpers, want a second one that runs", len(h.procs))
	}
}

// Without the library there are no logins, and no processes.
func TestNoLibrary(t *testing.T) {
	testutil.CheckLeaks(t)
	none := t.TempDir() + "/libsasl2.so"
	h := sasl.New(sasl.Options{Start: func(sock *os.File, probe bool) (sasl.Process, error) {
		if !probe {
			t.Error("a helper was started")
		}
		p, err := saslhelper.Start(saslhelper.Options{Libraries: []string{none, none}}, sock, probe)
		if err != nil {
			return nil, err
		}
		return p, nil
	}})
	defer h.Close()
	want := "cannot load libsasl2: " + none + ": cannot open shared object file"
	if !saslhelper.Supported {
		want = "this pmcd was built without cgo or glibc and cannot load libsasl2"
	}
	if err := h.Available(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Available: %v, want %q", err, want)
	}
	if _, _, err := h.Begin(t.Context(), login("a")); code(err) != -21345 {
		t.Errorf("Begin: %v", err)
	}
}
