package root

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// The host name is that of the engine, of the file in the container, or of the
// environment.
func TestHostName(t *testing.T) {
	ours, err := os.Readlink("/proc/self/ns/uts")
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"environ": "A=1\x00HOSTNAME=byenv\x00HOSTNAME=again\x00"}
	files := map[string]string{
		"secret":                     "outside\n",
		"box/etc/hostname":           "\n# comment\n byfile \nmore\n",
		"linked/etc/hostname":        "-> /run/name",
		"linked/run/name":            "bylink",
		"out/etc/hostname":           "-> ../../../secret",
		"out/secret":                 "inside",
		"bad/etc/hostname":           "two words\n",
		"long/etc/hostname":          strings.Repeat("x", 65),
		"huge/etc/hostname":          strings.Repeat("x\n", 5000),
		"dir/etc/hostname/":          "",
		"magic/etc/hostname":         "-> /proc/self/environ",
		"fifo/etc/":                  "",
		"proc/200/x":                 "",
		"proc/201/ns/uts":            "-> " + ours,
		"proc/201/root/etc/hostname": "byfile",
	}
	roots := []string{"box", "linked", "out", "bad", "long", "huge", "dir", "magic", "fifo", "none"}
	for i, root := range roots {
		addProcess(files, 100+i, 1, 1, env)
		files[fmt.Sprintf("proc/%d/root", 100+i)] = "-> ../../" + root
	}
	addProcess(files, 202, 1, 1, map[string]string{"environ": "HOSTNAME=\x00HOSTNAMES=x\x00XHOSTNAME=y"})
	root := pmdatest.Tree(t, files)
	if err := syscall.Mkfifo(root+"/fifo/etc/hostname", 0o666); err != nil {
		t.Fatal(err)
	}
	table := newTable(options(root))
	want := map[int]string{100: "byfile", 101: "bylink", 102: "inside", 201: nodename(t)}
	for pid := 100; pid < 100+len(roots); pid++ {
		if want[pid] == "" {
			want[pid] = "byenv"
		}
	}
	for pid, want := range want {
		if got, err := table.hostName(nil, pid); got != want || err != nil {
			t.Errorf("process %d: got %q, %v, want %q", pid, got, err, want)
		}
	}
	known := &container{hostname: "byengine"}
	if got, err := table.hostName(known, 100); got != "byengine" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	known.hostname = "not a name"
	if got, err := table.hostName(known, 100); got != "byfile" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := table.hostName(known, 202); got != "" || !errors.Is(err, pdu.ErrnoValue) {
		t.Errorf("no name at all: %q, %v", got, err)
	}
	for _, pid := range []int{-1, 0, 200, 999} {
		if got, err := table.hostName(nil, pid); got != "" || errnoOf(err) != -2 {
			t.Errorf("process %d: %q, %v", pid, got, err)
		}
	}
}

// In a real name space, the host name is found without entering it, and that of the
// process itself for one that has none.
func TestHostNameOfProcess(t *testing.T) {
	testutil.NeedRoot(t)
	start := func(script string) int {
		return testutil.Unshare(t, []string{"--uts", "--mount"}, script, "HOSTNAME=byenv").Process.Pid
	}
	o := Options{}
	o.setDefaults()
	table := newTable(o)
	pid := start(`mount -t tmpfs none /etc && echo boxed > /etc/hostname && hostname boxed && echo ready && read x`)
	// With sysctl(2) in the files of the process it is the name of the reader.
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/proc/sys/kernel/hostname", pid)); err == nil && strings.TrimSpace(string(b)) != nodename(t) {
		t.Errorf("/proc/sys of the process has %q: use that", b)
	}
	if got, err := table.hostName(nil, pid); got != "boxed" || err != nil {
		t.Errorf("by its file: got %q, %v", got, err)
	}
	pid = start(`hostname boxed && echo ready && read x`) // its /etc/hostname is that of this process
	if got, err := table.hostName(nil, pid); got != "byenv" || err != nil {
		t.Errorf("by its environment: got %q, %v", got, err)
	}
	if got, err := table.hostName(nil, os.Getpid()); got != nodename(t) || err != nil {
		t.Errorf("of this process: got %q, %v", got, err)
	}
}

// What a user makes block does not block the agent.
func TestHostNameBlocked(t *testing.T) {
	files := map[string]string{}
	addProcess(files, 100, 1, 1, nil)
	table := newTable(options(pmdatest.Tree(t, files)))
	table.proc.guard = &guard{make(chan struct{}), time.Millisecond} // no call can begin
	table.proc.rootGuard = table.proc.guard
	if got, err := table.hostName(nil, 100); got != "" || errnoOf(err) != -int32(syscall.ETIMEDOUT) {
		t.Errorf("got %q, %v", got, err)
	}
}

func nodename(t *testing.T) string {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return name
}
