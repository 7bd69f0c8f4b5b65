package sasl_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/daemon/internal/sasl"
	"github.com/gopcp/pmcd/internal/saslhelper"
	"github.com/gopcp/pmcd/internal/testutil"
)

// What the helper and its children may do, and have.
func TestPeerProcess(t *testing.T) {
	t.Setenv("SECRET", "x")
	var cred *syscall.Credential
	if os.Geteuid() == 0 {
		cred = &syscall.Credential{Uid: 65534, Gid: 65534, Groups: []uint32{45, 65534}}
	}
	h := newHarness(t, "", func(_ *sasl.Options, ho *saslhelper.Options) { ho.Credential = cred })
	if err := os.Chmod(h.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	h.begin(login("a"))
	pids := append(h.children(), h.procs[0].PID())
	if len(pids) != 2 {
		t.Fatalf("processes %v", pids)
	}
	for _, pid := range pids {
		proc := func(name string) string {
			t.Helper()
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
			if err != nil {
				t.Error(err)
			}
			return string(b)
		}
		status := proc("status")
		for _, want := range []string{"NoNewPrivs:\t1\n", "Threads:\t1\n", "Name:\tpmcd-sasl\n"} {
			if !strings.Contains(status, want) {
				t.Errorf("process %d has no %q in its status:\n%s", pid, want, status)
			}
		}
		if cred != nil && (!strings.Contains(status, "Uid:\t65534\t65534\t65534\t65534\n") || !strings.Contains(status, "Groups:\t45 65534 \n")) {
			t.Errorf("process %d has other rights:\n%s", pid, status)
		}
		if fi, err := os.Stat(fmt.Sprintf("/proc/%d/status", pid)); err != nil || fi.Sys().(*syscall.Stat_t).Uid != 0 {
			t.Errorf("process %d is dumpable: %v", pid, err) // the kernel gives the files to root if it is not
		}
		if limits := proc("limits"); !strings.Contains(strings.Join(strings.Fields(limits), " "), "Max core file size 0 0 bytes") {
			t.Errorf("process %d may dump core:\n%s", pid, limits)
		}
		if env := proc("environ"); env != "SASL_CONF_PATH="+h.dir+"\x00" {
			t.Errorf("process %d has the environment %q", pid, env)
		}
		fds, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			switch to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name())); {
			case to == "/dev/null":
			case strings.HasPrefix(to, "socket:") && fd.Name() == "3":
			default:
				t.Errorf("process %d has descriptor %s: %s", pid, fd.Name(), to)
			}
		}
	}
}

// The database is read with the rights of the helper's user.
func TestPeerUnreadable(t *testing.T) {
	testutil.NeedRoot(t)
	h := newHarness(t, database, func(_ *sasl.Options, ho *saslhelper.Options) {
		ho.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	})
	for name, mode := range map[string]os.FileMode{"": 0o755, "/..": 0o755, "/pmcd.conf": 0o644, "/sasldb2": 0o600} {
		if err := os.Chmod(h.dir+name, mode); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := h.logIn(plain("alice", password))
	if code(err) != -21345 {
		t.Errorf("with a database that cannot be read: %v", err)
	}
	h.wantLog("unable to open Berkeley db " + h.dir + "/sasldb2: Permission denied")
	if err := os.Chmod(h.dir+"/sasldb2", 0o644); err != nil {
		t.Fatal(err)
	}
	h.wantLogin()
}

// The environment has what libsasl2 needs.
func TestEnviron(t *testing.T) {
	env := map[string]string{"PATH": "/bin", "SASL_PATH": "a", "SASL_CONF_PATH": "b", "PCP_SASL2_CONFIG_PATH": "c", "TZ": "UTC"}
	got := fmt.Sprint(saslhelper.Environ(func(name string) string { return env[name] }))
	if want := "[SASL_CONF_PATH=c SASL_PATH=a TZ=UTC]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
