package peertest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/builtin/root"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// askRoot returns the reply of a pmdaroot to a request, or what it sends first if there is
// none; empty if it closes the connection.
func askRoot(t *testing.T, socket string, request []byte) []byte {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testutil.Hangs))
	greeting := make([]byte, 24)
	if _, err := io.ReadFull(conn, greeting); err != nil || request == nil {
		return greeting
	}
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 8192)
	n, _ := conn.Read(b) // pmdaroot sends a message in one piece
	return b[:n]
}

// Descriptors, instances, values and what the socket answers are those of pmdaroot, for
// containers that are composed.
func TestRoot(t *testing.T) {
	peer.Require(t)
	testutil.NeedRoot(t) // pmdaroot needs it
	sleep := exec.Command("sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sleep.Process.Kill()
		sleep.Wait()
	})
	pid := sleep.Process.Pid
	web, ended := strings.Repeat("a1b2", 16), strings.Repeat("b", 64)
	pod, dead := strings.Repeat("c3d4", 16), strings.Repeat("d", 64)
	cri := strings.Repeat("e5", 32)
	docker := func(name string, running, restarting bool, pid int) string {
		return fmt.Sprintf(`{"State":{"Running":%v,"Paused":false,"Restarting":%v,"Pid":%d},"Name":"/%s"}`, running, restarting, pid, name)
	}
	dir := pmdatest.Tree(t, map[string]string{
		"docker/containers/" + web + "/config.v2.json":  docker("web", true, false, pid),
		"docker/containers/" + ended + "/config.json":   docker("ended", false, false, 0),
		"data/containers.json":                          fmt.Sprintf(`[{"id":%q,"names":["first","pod"]},{"id":%q,"names":["dead"]}]`, pod, dead),
		"run/" + pod + "/userdata/pidfile":              fmt.Sprint(pid),
		"lxc/box/config":                                "",
		"lxc-info":                                      "#!/bin/sh\nexit 1\n",
		"cgroup/memory/docker/" + web + "/cgroup.procs": "",
		"cgroup/unified/machine.slice/libpod-" + pod + ".scope/container/cgroup.procs": "",
		"cgroup/unified/kubepods.slice/cri-containerd-" + cri + ".scope/cgroup.procs":  "", // no process: it is not shown
	})
	if err := os.Chmod(dir+"/lxc-info", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"PCP_DOCKER_DIR": dir + "/docker", "PCP_PODMAN_DATADIR": dir + "/data", "PCP_PODMAN_RUNDIR": dir + "/run",
		"PCP_LXC_DIR": dir + "/lxc", "PCP_LXC_INFO": dir + "/lxc-info", "PCP_CGROUP_DIR": dir + "/cgroup",
		"PCP_CGROUP_CHECK_PATH": dir + "/cgroup/memory/docker", "PCP_SYSTEMD_CGROUP": "",
	} {
		t.Setenv(name, value)
		if value == "" {
			os.Unsetenv(name)
		}
	}
	sockets, err := os.MkdirTemp("", "root") // a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(sockets) })
	c := startPMDA(t, "root", 1, "-s", filepath.Join(sockets, "c"))
	o := root.FromEnv()
	o.Socket, o.Log = filepath.Join(sockets, "ours"), slog.New(slog.DiscardHandler)
	o.Proc = filepath.Join(dir, "proc") // without the containers of this host
	if err := os.MkdirAll(o.Proc, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(fmt.Sprintf("/proc/%d", pid), filepath.Join(o.Proc, fmt.Sprint(pid))); err != nil {
		t.Fatal(err)
	}
	a, err := root.Open(1, o)
	if err != nil {
		t.Fatal(err)
	}
	ours := transport.Inline(a)
	t.Cleanup(func() { ours.Close() })

	tree, err := pmnsload.Load("../../../../etc/root", pmnsload.Options{Preprocess: true})
	if err != nil {
		t.Fatal(err)
	}
	insts := func(tr transport.Transport) map[int32]string {
		m := make(map[int32]string)
		for _, i := range ask[pdu.Instance](t, tr, &pdu.InstanceReq{InDom: pdu.NewInDom(1, 0), Inst: pdu.NoInst}).Insts {
			m[i.ID] = i.Name
		}
		return m
	}
	values := func(tr transport.Transport, id pdu.PMID) string {
		set := ask[pdu.Result](t, tr, &pdu.Fetch{PMIDs: []pdu.PMID{id}}).Sets[0]
		var b strings.Builder
		for _, v := range set.Values {
			fmt.Fprintf(&b, "%d=%d %q\n", v.Inst, v.Word, v.Block)
		}
		return b.String()
	}
	same(t, "instances", fmt.Sprint(insts(c)), fmt.Sprint(insts(ours)))
	if n := len(insts(ours)); n != 5 {
		t.Errorf("%d instances, want 5", n)
	}
	n := 0
	for e := range tree.All("containers") {
		n++
		same(t, e.Name, ask[pdu.Desc](t, c, &pdu.DescReq{PMID: e.PMID}), ask[pdu.Desc](t, ours, &pdu.DescReq{PMID: e.PMID}))
		same(t, e.Name, values(c, e.PMID), values(ours, e.PMID))
	}
	if n != 7 {
		t.Errorf("%d metrics, want 7", n)
	}

	words := func(ns ...int) (b []byte) {
		for _, n := range ns {
			b = binary.NativeEndian.AppendUint32(b, uint32(int32(n)))
		}
		return b
	}
	about := func(typ int, name string) []byte {
		return append(words(typ, 24+len(name), 0, 2, 0, len(name)), name...)
	}
	requests := map[string][]byte{"nothing": nil}
	for what, typ := range map[string]int{"host name": 0x9001, "process": 0x9003, "group": 0x9005} {
		for _, name := range []string{web, web[:4], web[:30], "web", "/web", "web\x00", ended, "ended", pod, pod[:4], "pod", "first", dead, "dead", "box", "nosuch", cri} {
			requests[what+" of "+name] = about(typ, name)
		}
		requests[what+", a later version"] = append(words(typ, 27, 0, 3, 0, 3), "web"...)
		requests[what+", a status"] = append(words(typ, 27, 1, 2, 0, 3), "web"...)
		requests[what+", a failure"] = append(words(typ, 27, -1, 2, 0, 3), "web"...)
		requests[what+", too long a name"] = append(words(typ, 27, 0, 2, 0, 30), "web"...)
	}
	requests["process of none"] = words(0x9003, 24, 0, 2, 0, 0)
	requests["group of none"] = words(0x9005, 24, 0, 2, 0, 0)
	requests["host name of a process"] = words(0x9001, 24, 0, 2, pid, 0)
	requests["a greeting"] = words(0x9000, 24, 0, 2, 7, 0)
	requests["a reply"] = words(0x9004, 24, 0, 2, 7, 0)
	for name, q := range requests {
		cs, got := askRoot(t, filepath.Join(sockets, "c"), q), askRoot(t, o.Socket, q)
		if len(cs) == 88 && binary.NativeEndian.Uint32(cs[20:]) == 64 && int32(binary.NativeEndian.Uint32(cs[8:])) < 0 {
			cs = cs[:24] // C differs: a host name that is not known is 64 bytes of an earlier one
			binary.NativeEndian.PutUint32(cs[4:], 24)
			binary.NativeEndian.PutUint32(cs[20:], 0)
		}
		if !bytes.Equal(cs, got) {
			t.Errorf("%s\npmdaroot: %q\nours:     %q", name, cs, got)
		}
	}

	// C differs: it answers for the beginning of an id of any length, tells the host name
	// of any process, and starts and ends processes.
	denied := func(b []byte) bool { return int32(binary.NativeEndian.Uint32(b[8:])) == int32(pdu.ErrnoPermission) }
	for name, q := range map[string][]byte{
		"one byte": about(0x9003, "a"), "one byte of an id": about(0x9003, "axxxxxx"),
		"a part of a name of LXC": about(0x9003, "bo"),
		"another process":         words(0x9001, 24, 0, 2, os.Getpid(), 0),
	} {
		cs, got := askRoot(t, filepath.Join(sockets, "c"), q), askRoot(t, o.Socket, q)
		if int32(binary.NativeEndian.Uint32(cs[8:])) != 0 || int32(binary.NativeEndian.Uint32(got[8:])) != int32(pdu.ErrnoNoContainer) {
			t.Errorf("%s\npmdaroot: %q\nours:     %q", name, cs, got)
		}
	}
	start := append(append(words(0x9007, 16+24+64+4, 0, 2, 0, 0, 0, 2, 1, 4), append([]byte("x"), make([]byte, 63)...)...), "true"...)
	for name, q := range map[string][]byte{"start": start, "wait": words(0x9009, 32, 0, 2, -1, 0, 0, 0)} {
		cs, got := askRoot(t, filepath.Join(sockets, "c"), q), askRoot(t, o.Socket, q)
		if len(cs) != len(got) || !bytes.Equal(cs[:8], got[:8]) || denied(cs) || !denied(got) {
			t.Errorf("%s\npmdaroot: %q\nours:     %q", name, cs, got)
		}
	}
	for _, force := range []int{0, 1} {
		if got := askRoot(t, o.Socket, words(0x9009, 32, 0, 2, pid, 0, force, 0)); !denied(got) {
			t.Errorf("stop: %q", got)
		}
	}
	same(t, "after all", values(c, pdu.NewPMID(1, 0, 2)), values(ours, pdu.NewPMID(1, 0, 2)))
}
