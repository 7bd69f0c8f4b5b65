package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
)

// boxID is what Docker would call the container of the test.
var boxID = strings.Repeat("0123456789abcdef", 3) + fmt.Sprintf("%016x", os.Getpid())

// startBox makes a container, as far as PCP can tell: name spaces, a control
// group if there are any, and what Docker has of it in its directory. It returns
// its first process.
func startBox(t *testing.T, docker string) (pid int) {
	t.Helper()
	const script = `set -e
mount -t proc proc /proc
hostname boxed
mount -t sysfs sysfs /sys
mount -t tmpfs -o size=1m boxed /mnt
ip link set lo up mtu 1234
ip addr add 10.9.8.7/32 dev lo label lo:1
echo ready
read stay`
	cmd := testutil.Unshare(t, []string{"--net", "--mount", "--uts", "--pid", "--fork"}, script)
	for _, p := range peer.Descendants(cmd.Process.Pid) {
		pid = p.PID
	}
	dir := filepath.Join(docker, "containers", boxID)
	state := fmt.Sprintf(`{"State":{"Running":true,"Paused":false,"Restarting":false,"Pid":%d},"Name":"/box","Config":{"Hostname":"boxed"}}`, pid)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.v2.json"), []byte(state), 0o644); err != nil {
		t.Fatal(err)
	}
	return pid
}

// groupBox puts a process into a control group where pmdaproc looks for those of
// the container, and reports whether that can be done.
func groupBox(t *testing.T, pid int) bool {
	group := filepath.Join("/sys/fs/cgroup/memory/docker", boxID, "container")
	if err := os.MkdirAll(group, 0o755); err != nil {
		return false
	}
	t.Cleanup(func() {
		os.WriteFile("/sys/fs/cgroup/memory/cgroup.procs", []byte(strconv.Itoa(pid)), 0o644)
		for dir := group; dir != "/sys/fs/cgroup/memory"; dir = filepath.Dir(dir) {
			syscall.Rmdir(dir) // others may use docker
		}
	})
	return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644) == nil
}

// Clients of a container get from the built-in agents, under a pmcd that is not
// root any more, what they get from PCP's agents, which are root. Both ask PCP's pmdaroot
// about containers, or the built-in agent root.
func TestPeerContainers(t *testing.T) {
	for name, line := range map[string]string{
		"pmdaroot": "root 1 pipe binary /var/lib/pcp/pmdas/root/pmdaroot",
		"built in": "root 1 pipe binary /nonexistent/pmdaroot -l -",
	} {
		t.Run(name, func(t *testing.T) { testContainers(t, line) })
	}
}

func testContainers(t *testing.T, rootLine string) {
	pmcd := privilegedPlace(t)
	var lines, names []string
	for _, f := range []string{"root/pmdaroot", "linux/pmdalinux", "proc/pmdaproc"} {
		testutil.NeedPeer(t, "/var/lib/pcp/pmdas/"+f)
	}
	docker := pmcd.At("docker")
	pid := startBox(t, docker)
	grouped := groupBox(t, pid)
	for _, dir := range []string{"var/pmcd", "var/config/pmda"} {
		if err := os.MkdirAll(pmcd.At(dir), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(pmcd.At(dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	lines = []string{
		rootLine,
		"pmcd 2 dso pmcd_init /none",
		"linux 60 dso linux_init /nonexistent/pmda_linux.so",
		"proc 3 dso proc_init /nonexistent/pmda_proc.so",
		"clinux 61 pipe binary /var/lib/pcp/pmdas/linux/pmdalinux -d 61 -l " + pmcd.At("log/linux.log"),
		"cproc 62 pipe binary /var/lib/pcp/pmdas/proc/pmdaproc -d 62 -l " + pmcd.At("log/proc.log"),
	}
	metrics := map[string]string{ // by PMID of ours, and with %d for the domain
		"nodename": "%d:12:4", "nprocs": "%d:2:3", "mtu": "%d:3:21", "inbytes": "%d:3:0", "up": "%d:3:25",
		"inet": "%d:33:0", "hw": "%d:33:3", "ipforwarding": "%d:14:1", "mountdir": "%d:5:7", "ninterface": "%d:3:27",
		"capacity": "%d:34:1",
	}
	pmns := "root { pmcd a b p q }\npmcd { hostname 2:0:21 numclients 2:0:3 }\n"
	for top, domain := range map[string]int{"a": 60, "b": 61} {
		pmns += top + " {\n"
		for name, id := range metrics {
			pmns += name + " " + fmt.Sprintf(id, domain) + "\n"
		}
		pmns += "}\n"
	}
	pmns += "p { nprocs 3:8:99 pid 3:8:0 }\nq { nprocs 62:8:99 pid 62:8:0 }\n"
	pmcd.Write("conf", strings.Join(lines, "\n")+"\n")
	pmcd.Write("pmns", pmns)
	p := pmcd.start("PCP_VAR_DIR="+pmcd.At("var"), "PCP_DOCKER_DIR="+docker)

	// values are what pminfo prints for a metric of a container, without its name.
	values := func(container, metric string) string {
		cmd := exec.Command("pminfo", "-h", "unix:"+p.At("run/sock")+"?container="+container, "-f", metric)
		cmd.Env = append(os.Environ(), "PCP_DERIVED_CONFIG=")
		out, _ := cmd.CombinedOutput()
		text := strings.TrimSpace(strings.Replace(string(out), metric, "", 1))
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			lines[i] = strings.TrimSpace(line)
			if _, after, ok := strings.Cut(line, " or "); ok { // ids may differ
				lines[i] = after
			}
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	settled := func(metric, part string) string {
		var got string
		peer.Until(80*time.Second, func() bool { got = values("box", metric); return strings.Contains(got, part) })
		return got
	}
	for metric, part := range map[string]string{
		"a.nodename": `"boxed"`, "b.nodename": `"boxed"`, "pmcd.hostname": `"boxed"`,
		"a.mtu": `"lo"] value 1234`, "a.inet": `"lo:1"] value "10.9.8.7"`, "a.capacity": `"/mnt"] value 1024`,
	} {
		if got := settled(metric, part); !strings.Contains(got, part) {
			t.Errorf("%s is %s, want %s", metric, got, part)
		}
	}
	names = slices.Collect(func(yield func(string) bool) {
		for name := range metrics {
			// What is common to the whole host changes; pmdalinux has the sizes of the
			// host's file systems.
			if name != "nprocs" && name != "capacity" && !yield(name) {
				return
			}
		}
	})
	slices.Sort(names)
	for _, name := range names {
		if ours, cs := values("box", "a."+name), values("box", "b."+name); ours != cs {
			t.Errorf("%s is\n%s\nfrom pmdalinux it is\n%s", name, ours, cs)
		}
	}
	if grouped {
		want := fmt.Sprintf("value %d", pid)
		for _, top := range []string{"p", "q"} {
			if got := values("box", top+".nprocs"); got != "value 1" {
				t.Errorf("%s.nprocs is %s", top, got)
			}
			if got := values("box", top+".pid"); !strings.HasSuffix(got, want) || strings.Contains(got, "\n") {
				t.Errorf("%s.pid is %s, want %s", top, got, want)
			}
		}
	}
	for _, metric := range []string{"a.mtu", "b.mtu", "p.nprocs", "q.nprocs"} {
		if got := values("nobody", metric); !strings.Contains(got, "Container not found") {
			t.Errorf("%s of no container is %s", metric, got)
		}
	}

	// The process that looks into containers is another one than that of others.
	agent := pmcdtest.Children(p.root)["pmcd-agent: linux"]
	if agent == 0 {
		t.Fatalf("no process for containers: %v", pmcdtest.Children(p.root))
	}
	if err := syscall.Kill(agent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.answers("a.nprocs", true)
	if got := settled("a.nodename", "boxed"); !strings.Contains(got, "boxed") {
		t.Errorf("after the end of its process: %s", got)
	}
	if strings.Contains(p.value("a.nodename"), "boxed") {
		t.Error("the host has become a container")
	}
}

// A client that names a container on a host without pmdaroot has no process
// started for it: there are no containers.
func TestPeerMadeUpContainer(t *testing.T) {
	pmcd := privilegedPlace(t)
	pmcd.Write("conf", "pmcd 2 dso pmcd_init /none\nlinux 60 dso linux_init /nonexistent/pmda_linux.so\n")
	pmcd.Write("pmns", "root { pmcd linux }\npmcd { numclients 2:0:3 }\nlinux { nodename 60:12:4 nprocs 60:2:3 }\n")
	p := pmcd.start("PCP_VAR_DIR=" + pmcd.At("var"))
	p.answers("linux.nprocs", true)
	cmd := exec.Command("pminfo", "-h", "unix:"+p.At("run/sock")+"?container=made-up", "-f", "linux.nodename")
	cmd.Env = append(os.Environ(), "PCP_DERIVED_CONFIG=")
	if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), "Not Connected") {
		t.Errorf("%s%v", out, err)
	}
	if pid := pmcdtest.Children(p.root)["pmcd-agent: linux"]; pid != 0 || strings.Contains(pmcdtest.Read(p.At("log/pmcd.log")), "for containers") {
		t.Errorf("there is a process for containers, pid %d", pid)
	}
}
