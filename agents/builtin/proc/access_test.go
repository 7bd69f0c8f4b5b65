package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// Clients whose user or group pmcd does not know see counts of processes only.
func TestUnknownClient(t *testing.T) {
	denied := pdu.ErrnoPermission.Error()
	for _, tt := range []struct {
		attrs map[pdu.AttrCode]string
		want  string
	}{
		{nil, denied},
		{map[pdu.AttrCode]string{pdu.AttrUserID: "0"}, denied},
		{map[pdu.AttrCode]string{pdu.AttrGroupID: "0"}, denied},
		{map[pdu.AttrCode]string{pdu.AttrUserID: "x", pdu.AttrGroupID: "0"}, denied},
		{map[pdu.AttrCode]string{pdu.AttrUserName: "mallory"}, denied},
		{map[pdu.AttrCode]string{pdu.AttrUserName: "alice"}, "5=5"},
		{map[pdu.AttrCode]string{pdu.AttrUserID: "0", pdu.AttrGroupID: "0"}, "5=5"},
	} {
		root := pmdatest.Tree(t, map[string]string{"proc/5/stat": "5 (x) S 1\n", "access.conf": "# x\nallowed: bob, alice # no\nmapped: false\n"})
		r := newHarness(t, Options{Root: root, AccessConf: filepath.Join(root, "access.conf")})
		r.setAttrs(tt.attrs)
		r.Want(map[string]string{"proc.psinfo.pid": tt.want, "proc.nprocs": "1", "proc.runq.swapped": "1", "proc.control.all.threads": "0"})
		if tt.want == denied {
			r.Want(map[string]string{"proc.psinfo.ppid": denied, "proc.autogroup.enabled": denied})
		}
	}
	r := newHarness(t, Options{Root: pmdatest.Tree(t, map[string]string{"proc/5/stat": "5 (x) S 1\n"}), AllAccess: true})
	r.setAttrs(nil)
	r.Want(map[string]string{"proc.psinfo.ppid": "5=1"})
}

// An agent that is not root shows private files only to its own user and to root.
func TestUnprivilegedAgent(t *testing.T) {
	root := composedTree(t)
	withoutThread(t, root)
	r := newHarness(t, Options{Root: root})
	r.host.ownCreds = credentials{uid: 1000, gid: 1000}
	private := map[string]string{
		"proc.psinfo.environ": "7= 100= 1234567=", "proc.psinfo.exe": "7= 100= 1234567=", "proc.psinfo.cwd": "7= 100= 1234567=",
		"proc.memory.maps": "7= 100= 1234567=", "proc.io.rchar": "", "proc.fd.count": "", "proc.smaps.rss": "",
		"proc.psinfo.start_code": "7=0 100=0 1234567=0",
	}
	delete(private, "proc.psinfo.start_code")
	for _, uid := range []int{1000, 0} {
		r.setUser(uid, 1)
		for name, hidden := range private {
			if got := r.Values(name); got == hidden {
				t.Errorf("user %d does not see %s", uid, name)
			}
		}
	}
	r.setUser(1001, 1000)
	r.Want(private)
	r.Want(map[string]string{"proc.psinfo.cmd": "7=kworker/0:1 100=a (b) c", "proc.psinfo.start_code": "7=0 100=0"})
}

// An agent that is root shows what the kernel shows to the client's user.
func TestActsAsClient(t *testing.T) {
	testutil.NeedRoot(t)
	r := newHarness(t, Options{})
	sees := func(name string, pid int) bool {
		return strings.Contains(" "+r.Values(name)+" ", fmt.Sprintf(" %d=/", pid))
	}
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sleep", "3600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	for range 20 { // on several threads
		// The agent's own process is hidden, too, although the kernel shows it to all
		// threads of the agent.
		for _, pid := range []int{child.Process.Pid, os.Getpid()} {
			r.setUser(65534, 65534)
			if sees("proc.psinfo.exe", pid) {
				t.Fatalf("uid 65534 sees the program of process %d of root", pid)
			}
			if !strings.Contains(" "+r.Values("proc.id.uid")+" ", fmt.Sprintf(" %d=0 ", pid)) {
				t.Fatalf("uid 65534 does not see the user of process %d of root", pid)
			}
			r.setUser(0, 0)
			if !sees("proc.psinfo.exe", pid) {
				t.Fatalf("root does not see the program of its process %d", pid)
			}
		}
	}
	// All threads have root's user and groups again.
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		b, err := os.ReadFile("/proc/self/task/" + task.Name() + "/status")
		if err != nil {
			continue // the thread has ended
		}
		if !strings.Contains(string(b), "\nUid:\t0\t0\t0\t0\n") || !strings.Contains(string(b), "\nGid:\t0\t0\t0\t0\n") {
			t.Errorf("thread %s:\n%s", task.Name(), b)
		}
		_, list, _ := strings.Cut(string(b), "\nGroups:")
		list, _, _ = strings.Cut(list, "\n")
		if len(strings.Fields(list)) != len(groups) {
			t.Errorf("thread %s has groups %s, want %v", task.Name(), list, groups)
		}
	}
}

func FuzzAccess(f *testing.F) {
	f.Add("allowed: alice, bob\nmapped: true\n")
	f.Fuzz(func(t *testing.T, text string) {
		for name := range parseAccess(text).allowed {
			if strings.ContainsAny(name, " ,#\n\t") || name == "" {
				t.Errorf("%q has %q", text, name)
			}
		}
	})
}

// A command line that was read as root is not shown to other users if /proc is
// mounted with hidepid=1.
func TestHiddenArgs(t *testing.T) {
	if !testutil.InProcess(t, syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}) {
		return
	}
	root := t.TempDir()
	if err := os.Mkdir(root+"/proc", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(root), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		testutil.Missing(t, err)
	}
	if err := syscall.Mount("proc", root+"/proc", "proc", 0, "hidepid=1"); err != nil {
		testutil.Missing(t, err)
	}
	defer syscall.Unmount(root+"/proc", syscall.MNT_DETACH)
	other := exec.Command("sleep", "60") // the kernel shows a process to itself
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	// Start can return before the kernel has set the new command line.
	testutil.Eventually(t, "the process has its command line", func() bool {
		args, _ := os.ReadFile(fmt.Sprintf("%s/proc/%d/cmdline", root, other.Process.Pid))
		return string(args) == "sleep\x0060\x00"
	})
	r := newHarness(t, Options{Root: root})
	for _, tt := range []struct {
		uid  int
		sees bool
	}{{0, true}, {65534, false}, {0, true}} {
		r.setUser(tt.uid, tt.uid)
		if got := r.Values("proc.psinfo.psargs"); strings.Contains(got, "=sleep 60") != tt.sees {
			t.Errorf("user %d sees %q", tt.uid, got)
		}
	}
}
