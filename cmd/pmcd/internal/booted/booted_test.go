package booted

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// With this in the environment the test program boots a machine, prints its
// process id as the host sees it, and waits.
const childEnv = "BOOTED_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		m, err := Boot(Host, nil)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(m.PID())
		select {}
	}
	os.Exit(m.Run())
}

func boot(t *testing.T, layer Layer) *Machine {
	t.Helper()
	m, err := Boot(Host, layer)
	if err != nil {
		testutil.Missing(t, err)
	}
	t.Cleanup(func() {
		if err := m.Halt(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// A machine has the files of the host, an init, and nothing else of it.
func TestBoot(t *testing.T) {
	m := boot(t, nil)
	host, err := os.MkdirTemp("/tmp", "booted") // which is not shared
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(host)
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ script, want string }{
		{"cat /proc/1/comm", "systemd\n"},
		{"systemctl is-system-running", "running\n"},
		{"cat /etc/passwd", string(passwd)},
		{"hostname; ls /sys/class/net", "booted\nlo\n"},
		{"echo changed >/etc/booted-test; cat /etc/booted-test", "changed\n"},
		{"ls " + host, "ls: cannot access '" + host + "': No such file or directory\n"},
		{"echo 1 >/proc/sys/vm/drop_caches", "sh: 1: cannot create /proc/sys/vm/drop_caches: Read-only file system\n"},
		{"sysctl -n -w net.ipv6.conf.all.disable_ipv6=1", "1\n"},
		{"systemd-run --quiet --wait --pipe -p DynamicUser=yes id -un | grep -c run-", "1\n"},
	} {
		if text, _ := m.Try(tt.script); text != tt.want {
			t.Errorf("%s: %q, want %q", tt.script, text, tt.want)
		}
	}
	if _, err := os.Lstat("/etc/booted-test"); err == nil {
		t.Error("the host's /etc has changed")
	}
	for i := range 2 {
		if text, code := m.Try("exit " + fmt.Sprint(i)); text != "" || code != i {
			t.Errorf("exit %d: exit status %d, %q", i, code, text)
		}
	}
}

// What a machine has changed can be given to others: files that are new,
// different or gone.
func TestSave(t *testing.T) {
	one := boot(t, nil)
	one.Write(t, "/srv/booted/new", "new\n")
	one.Run(t, "echo changed >/etc/debian_version && rm /etc/passwd- && rm -r /etc/default && mkdir /etc/default && rm -r /etc/security")
	layer, err := one.Save()
	if err != nil {
		t.Fatal(err)
	}
	two := boot(t, layer)
	const script = "cat /srv/booted/new /etc/debian_version; ls -A /etc/default; ls /etc/passwd- /etc/security 2>&1 | grep -c 'No such'"
	if got, want := two.Run(t, script), "new\nchanged\n2\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Nothing is left of a machine when its test program is killed.
func TestKilled(t *testing.T) {
	boot(t, nil) // or skip
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	init := filepath.Join("/proc", strings.TrimSpace(line))
	status, err := os.ReadFile(filepath.Join(init, "status"))
	if err != nil || !strings.Contains(string(status), "Name:\tsystemd\n") {
		t.Fatalf("%s: %v\n%s", line, err, status)
	}
	cgroups := groups(t, cmd.Process.Pid)
	if len(cgroups) != 1 {
		t.Errorf("control groups of the machine: %q", cgroups)
	}
	cmd.Process.Signal(syscall.SIGKILL)
	cmd.Wait()
	if !peer.Until(peer.Hangs, func() bool {
		_, err := os.Stat(init)
		return err != nil && len(groups(t, cmd.Process.Pid)) == 0
	}) {
		_, err := os.Stat(init)
		t.Errorf("left: %s (%v), %q", init, err, groups(t, cmd.Process.Pid))
	}
}

// groups returns the control groups of machines of a test program.
func groups(t *testing.T, pid int) []string {
	t.Helper()
	script := fmt.Sprintf("mount --make-rprivate / && mount -t cgroup2 cgroup2 /tmp && cd /tmp && for d in pmcd-booted-%d-*; do [ ! -d $d ] || echo $d; done", pid)
	out, err := exec.Command("unshare", "--mount", "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.Fields(string(out))
}

// Where a machine cannot be booted, Boot says why.
func TestImpossible(t *testing.T) {
	testutil.NeedRoot(t)
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"without CAP_SYS_ADMIN", []string{"setpriv", "--inh-caps", "-sys_admin", "--bounding-set", "-sys_admin"},
			"a machine cannot be booted here: this needs CAP_SYS_ADMIN, which root has not in this container\n"},
		{"without programs", []string{"env", "PATH=/nowhere"}, "a machine cannot be booted here: exec: \"mount\": executable file not found in $PATH (run make peers)\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testutil.NeedCapability(t, unix.CAP_SYS_ADMIN)
			cmd := exec.Command(tt.args[0], append(tt.args[1:], os.Args[0])...)
			cmd.Env = append(os.Environ(), childEnv+"=1")
			if out, err := cmd.Output(); err == nil || string(out) != tt.want {
				t.Errorf("%v, %q, want %q", err, out, tt.want)
			}
		})
	}
}
