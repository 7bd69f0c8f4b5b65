package linux

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/internal/pmdaroot/roottest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// newContainerHarness is newHarness for the agent with views of containers.
func newContainerHarness(tb testing.TB, o Options) *pmdatest.Harness {
	tb.Helper()
	return newTimedContainerHarness(tb, o, time.Hour) // no file blocks
}

// newTimedContainerHarness is newContainerHarness with the time that a request may wait for
// files.
func newTimedContainerHarness(tb testing.TB, o Options, timeout time.Duration) *pmdatest.Harness {
	tb.Helper()
	o.CacheDir, o.ConfDir = filepath.Join(tb.TempDir(), "none"), filepath.Join(tb.TempDir(), "none")
	h := newHost(60, o)
	h.ipv4 = func(func(ipv4)) error { return nil }
	h.guard.timeout = timeout
	a, err := h.agent()
	if err != nil {
		tb.Fatal(err)
	}
	return pmdatest.New(tb, 60, a, newHost(60, o).metrics())
}

// setContainer makes the client choose a container.
func setContainer(r *pmdatest.Harness, container string) {
	r.SetAttrs(
		pdu.Attr{Code: pdu.AttrUserID, Value: []byte("0")},
		pdu.Attr{Code: pdu.AttrContainer, Value: []byte(container)},
	)
}

// composedHost composes the files of a host with the containers box and crate.
func composedHost(t *testing.T) string {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of the host\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	root := pmdatest.Tree(t, map[string]string{
		"proc/loadavg":                          "0.25 0.5 1.0 2/300 4711\n",
		"proc/slabinfo":                         "slabinfo - version: 2.1\n# name\nkmalloc-8 1 2 8 512 1 : tunables 0 0 0 : slabdata 1 1 0\n",
		"proc/net/dev":                          "Inter-|\n face |\n  eth0: 10 1 0 0 0 0 0 0 20 2 0 0 0 0 0 0\n",
		"proc/net/snmp":                         "Ip: Forwarding InReceives\nIp: 1 5\n",
		"proc/net/sockstat":                     "TCP: inuse 1 orphan 0 tw 0 alloc 0 mem 0\n",
		"dev/":                                  "",
		"proc/1/mounts":                         "/dev/vda1 / ext4 rw 0 0\n",
		"sys/class/net/eth0/mtu":                "1500\n",
		"sys/class/net/eth0/address":            "aa:aa:aa:aa:aa:aa\n",
		"proc/77/root":                          "-> ../../box",
		"proc/77/net/dev":                       "Inter-|\n face |\n  eth0: 77 7 0 0 0 0 0 0 88 8 0 0 0 0 0 0\n  veth1: 1 1 0 0 0 0 0 0 2 2 0 0 0 0 0 0\n",
		"proc/77/net/snmp":                      "Ip: Forwarding InReceives\nIp: 1 77\n",
		"proc/77/net/sockstat":                  "TCP: inuse 77 orphan 0 tw 0 alloc 0 mem 0\n",
		"proc/77/mounts":                        "overlay / overlay rw 0 0\ntmpfs /run tmpfs rw 0 0\ntmpfs /out tmpfs ro 0 0\n/dev/disk/data /data ext4 ro 0 0\n",
		"box/sys/devices/net/eth0/mtu":          "9000\n",
		"box/sys/devices/net/eth0/address":      "-> " + secret,
		"box/sys/class/net/eth0":                "-> ../../devices/net/eth0",
		"box/sys/class/net/veth1/address":       "-> /etc/address",
		"box/sys/devices/virtual/net/veth1/mtu": "1\n",
		"box/etc/address":                       "bb:bb:bb:bb:bb:bb\n",
		"box/run/":                              "",
		"box/out":                               "-> " + filepath.Dir(secret),
		"box/data/":                             "",
		"box/dev/disk/data":                     "-> /dev/sdb",
		"box/dev/sdb":                           "",
		"proc/78/root":                          "-> ../../crate",
		"proc/78/net/dev":                       "Inter-|\n face |\n  eth0: 78 8 0 0 0 0 0 0 88 8 0 0 0 0 0 0\n",
		"crate/":                                "",
	})
	writeMountinfo(t, root, "proc/77", root)
	return root
}

// A client of a container gets the networks, file systems and host name of the
// container, and everything else of the host. No link in a container leads out of
// it.
func TestContainerViews(t *testing.T) {
	root := roottest.Start(t)
	root.Set("box", roottest.Container{PID: 77, Host: "boxed"})
	root.Set("gone", roottest.Container{PID: 99})
	r := newContainerHarness(t, Options{Root: composedHost(t), Pmdaroot: root.Socket})
	var u syscall.Utsname
	if err := syscall.Uname(&u); err != nil {
		t.Fatal(err)
	}
	same := map[string]string{"kernel.all.nprocs": "300", "mem.slabinfo.objects.active": "kmalloc-8=1"}
	ofHost := map[string]string{
		"network.interface.in.bytes": "eth0=10", "network.interface.mtu": "eth0=1500", "hinv.ninterface": "1",
		"network.interface.hw_addr": "eth0=aa:aa:aa:aa:aa:aa",
		"network.ip.inreceives":     "5", "network.sockstat.tcp.inuse": "1",
		"filesys.mountdir": "/dev/vda1=/", "hinv.nfilesys": "1", "tmpfs.full": "",
		"kernel.uname.nodename": string(utsText(u.Nodename[:])),
	}
	ofBox := map[string]string{
		"network.interface.in.bytes": "eth0=77 veth1=1", "network.interface.mtu": "eth0=9000", "hinv.ninterface": "2",
		"network.interface.virtual": "eth0=0 veth1=1",
		"network.ip.inreceives":     "77", "network.sockstat.tcp.inuse": "77",
		"filesys.mountdir": "overlay=/ /dev/sdb=/data", "hinv.nfilesys": "2", "filesys.readonly": "overlay=0 /dev/sdb=1",
		"kernel.uname.nodename": "boxed", "kernel.uname.sysname": "Linux",
	}
	for _, tt := range []struct {
		container string
		want      map[string]string
	}{{"", ofHost}, {"box", ofBox}, {"", ofHost}} {
		setContainer(r, tt.container)
		r.Want(tt.want)
		r.Want(same)
	}
	setContainer(r, "box")
	if got := r.Values("tmpfs.maxfiles"); !strings.HasPrefix(got, "/run=") || strings.Contains(got, "/out") {
		t.Errorf("tmpfs.maxfiles is %q, but the target of /out does not exist in the container", got)
	}
	a := r.Agent.(*viewAgent)
	h := a.host.forContainer(a.host.newContainer(77))
	if err := h.container.begin(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"eth0": "", "veth1": "bb:bb:bb:bb:bb:bb"} {
		if hw, _ := sysfile.Field(h.netDevice(name).Value("address")); string(hw) != want {
			t.Errorf("the address of %s is %q, want %q", name, hw, want)
		}
	}
	h.container.end()

	// After a restart of the container there is a new view.
	root.Set("box", roottest.Container{PID: 78})
	r.Want(map[string]string{"network.interface.in.bytes": "eth0=78", "filesys.mountdir": ""})
	const want = pdu.ErrnoNoContainer
	for _, name := range []string{"gone", "unknown"} { // choosing the second drops the view of the first
		setContainer(r, name)
		r.Want(map[string]string{"network.interface.in.bytes": want.Error(), "kernel.all.nprocs": want.Error()})
		if err := r.Do(&pdu.InstanceReq{InDom: pdu.NewInDom(60, indomInterface), Inst: pdu.NoInst}, new(pdu.Instance)); err != want {
			t.Errorf("instances for %s: %v, want %v", name, err, want)
		}
	}
	if len(a.containers) != 0 {
		t.Errorf("there are views of %v, which no client has chosen", a.containers)
	}
	setContainer(r, "box")
	r.Want(map[string]string{"network.interface.in.bytes": "eth0=78"})
	r.NewClient()
	r.Want(ofHost) // the agent receives the notice first
	if len(a.containers) != 0 || len(a.clients) != 0 || a.containerClients != 0 {
		t.Errorf("%d, %v, %v are left of a client that has ended", a.containerClients, a.clients, a.containers)
	}
}

// A container has one view, however many names for it the clients have chosen, and each client
// has its own name in it. The view stays until the last client leaves it.
func TestContainerHasOneView(t *testing.T) {
	root := roottest.Start(t)
	h := newHost(60, Options{Root: composedHost(t), Pmdaroot: root.Socket})
	a, err := h.agent()
	if err != nil {
		t.Fatal(err)
	}
	v := a.(*viewAgent)
	const clients = 9
	choose := func(client int32, name string) {
		t.Helper()
		v.SetAttr(client, pdu.Attr{Code: pdu.AttrContainer, Value: []byte(name)})
		root.Set(name, roottest.Container{PID: 77})
		w, err := v.viewOf(agents.Origin{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.(*containerView).container.name; got != name || len(v.containers) != 1 {
			t.Errorf("client %d has the name %q, and there are %d views", client, got, len(v.containers))
		}
	}
	for client := range int32(clients) {
		choose(client, "abcdefghi"[:client+1])
	}
	choose(0, "abcdefghi")
	view := v.containers[77]
	for client := range int32(clients) {
		if v.containers[77] != view {
			t.Errorf("client %d has no view any longer", client)
		}
		v.EndContext(client)
	}
	if len(v.containers) != 0 {
		t.Errorf("there are %d views without clients", len(v.containers))
	}
}

// A container with real name spaces, made by unshare(1). The agent sees them as
// processes in the container do, and stays in its own name spaces.
func TestContainerNamespaces(t *testing.T) {
	testutil.NeedRoot(t)
	script := `set -e
hostname boxed
mount -t tmpfs -o size=1m boxed /mnt
mount -t sysfs sysfs /sys
ip link set lo up mtu 1234
ip addr add 10.9.8.7/32 dev lo label lo:1
ip -o link | awk -F '[ :@]+' '{print $2}' | tr '\n' ' '; echo
stat -f -c '%b %S' /mnt
read stay`
	cmd := exec.Command("unshare", "--net", "--mount", "--uts", "sh", "-c", script)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		testutil.Missing(t, err)
	}
	defer func() {
		stdin.Close()
		cmd.Wait()
	}()
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() {
		testutil.Missing(t, "no name spaces, or no ip(8)")
	}
	links := slices.Sorted(strings.FieldsSeq(lines.Text()))
	lines.Scan()
	blocks, size, _ := strings.Cut(lines.Text(), " ")

	root := roottest.Start(t)
	root.Set("box", roottest.Container{PID: cmd.Process.Pid, Host: "boxed"})
	r := newContainerHarness(t, Options{Pmdaroot: root.Socket})
	other := newContainerHarness(t, Options{Pmdaroot: root.Socket}) // for the host only
	names := func(r *pmdatest.Harness) (list []string) {
		for _, i := range r.Instances(indomInterface) {
			list = append(list, i.Name)
		}
		slices.Sort(list)
		return list
	}
	view := func(r *pmdatest.Harness) string {
		return fmt.Sprint(names(r), slices.Sorted(strings.FieldsSeq(r.Values("filesys.mountdir"))), r.Values("kernel.uname.nodename"))
	}
	namespaces := func() (s string) { // of all threads
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, ns := range []string{"net", "mnt", "uts"} {
			of := make(map[string]bool)
			for _, thread := range threads {
				to, err := os.Readlink("/proc/self/task/" + thread.Name() + "/ns/" + ns)
				if err == nil {
					of[to] = true
				} else if !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
			}
			s += fmt.Sprint(slices.Sorted(maps.Keys(of)))
		}
		return s
	}
	at := namespaces()
	open := 0
	for i := range 20 { // the goroutine may run on other threads
		setContainer(r, "box")
		if got := names(r); fmt.Sprint(got) != fmt.Sprint(links) {
			t.Fatalf("interfaces are %v, want %v", got, links)
		}
		b, _ := strconv.Atoi(blocks)
		s, _ := strconv.Atoi(size)
		for metric, want := range map[string]string{
			"kernel.uname.nodename":       "boxed",
			"network.interface.inet_addr": "lo:1=10.9.8.7",
			"network.interface.mtu":       "lo=1234",
			"tmpfs.capacity":              fmt.Sprintf("/mnt=%d", b*s/1024),
			"network.interface.virtual":   "lo=1",
		} {
			if got := r.Values(metric); !strings.Contains(" "+got+" ", " "+want+" ") {
				t.Fatalf("%s is %q, want %q", metric, got, want)
			}
		}
		setContainer(r, "")
		if !testutil.Until(testutil.Hangs, func() bool { return view(r) == view(other) }) { // the host may have changed in between
			t.Fatalf("the view of the host is now %s, want %s", view(r), view(other))
		}
		if now := namespaces(); now != at {
			t.Fatalf("the agent was in %s and is in %s", at, now)
		}
		if i == 0 {
			open = descriptors(t)
		}
	}
	// The pmdaroot of the test closes its connections asynchronously.
	for deadline := time.Now().Add(testutil.Hangs); descriptors(t) > open; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors were open, and after 19 more views %d", open, descriptors(t))
		}
	}
}

// descriptors returns the number of open descriptors.
func descriptors(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

// startFakeContainer starts a thread with a mount name space of its own, calls f on
// it, and returns its id. In /proc it looks like the first process of a container.
// It ends with the test.
func startFakeContainer(t *testing.T, f func() error) (tid int) {
	t.Helper()
	testutil.NeedRoot(t)
	ready, end, ended := make(chan error), make(chan struct{}), make(chan struct{})
	go onOwnThread(func() (same bool, err error) {
		defer close(ended)
		tid = syscall.Gettid()
		err = unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = f()
		}
		ready <- err
		<-end
		return false, nil
	})
	t.Cleanup(func() {
		close(end)
		<-ended
	})
	if err := <-ready; err != nil {
		testutil.Missing(t, err)
	}
	return tid
}

// Root in a container may mount other files in place of files of the kernel. The
// agent does not open them: it has the rights of the host's root, and the file may
// be a device.
func TestContainerForeignFiles(t *testing.T) {
	file := func(path string) error { return os.WriteFile(path, []byte("secret\n"), 0o644) }
	for name, put := range map[string]func(path string) error{
		"a file":   file,
		"a device": func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 9))) },
		"a FIFO":   func(path string) error { return unix.Mkfifo(path, 0o666) },
		"a link": func(path string) error {
			if err := file("/sys/class/net/secret"); err != nil {
				return err
			}
			return os.Symlink("/sys/class/net/secret", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			pid := startFakeContainer(t, func() error {
				if err := unix.Mount("box", "/sys/class/net", "tmpfs", 0, ""); err != nil {
					return err
				}
				if err := os.Mkdir("/sys/class/net/lo", 0o755); err != nil {
					return err
				}
				return put("/sys/class/net/lo/address")
			})
			root := roottest.Start(t)
			root.Set("box", roottest.Container{PID: pid})
			r := newContainerHarness(t, Options{Pmdaroot: root.Socket})
			setContainer(r, "box")
			if got := r.Values("network.interface.hw_addr"); got != "" {
				t.Errorf("network.interface.hw_addr is %q", got)
			}
			if got := r.Values("network.interface.in.bytes"); !strings.Contains(got, "lo=") {
				t.Errorf("network.interface.in.bytes is %q", got)
			}
		})
	}
}

// A file system that does not respond has no values, and others have values.
func TestContainerStuckFilesystem(t *testing.T) {
	stuck, dir := t.TempDir(), t.TempDir()
	fuse, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		testutil.Missing(t, err)
	}
	closed := false
	defer func() {
		if !closed {
			unix.Close(fuse)
		}
	}()
	pid := startFakeContainer(t, func() error {
		if err := unix.Mount("/dev/fuse", stuck, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse)); err != nil {
			return err
		}
		return unix.Mount("box", dir, "tmpfs", 0, "size=1m")
	})
	root := roottest.Start(t)
	root.Set("box", roottest.Container{PID: pid})
	r := newTimedContainerHarness(t, Options{Pmdaroot: root.Socket}, requestTimeout)
	setContainer(r, "box")
	r.Values("filesys.capacity") // makes the view
	g := r.Agent.(*viewAgent).containers[pid].container.guard
	pending := func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return slices.ContainsFunc(slices.Collect(maps.Keys(g.pending)), func(path string) bool { return strings.HasSuffix(path, stuck) })
	}
	testutil.Eventually(t, "a call is abandoned", func() bool {
		r.Values("filesys.capacity") // waits until the timeout
		return pending()
	})
	g.timeout = testutil.Hangs // a call for another file system may take long on a busy machine
	for range 3 {
		if got := r.Values("filesys.capacity"); strings.Contains(got, "fuse") {
			t.Errorf("filesys.capacity is %q", got)
		}
		if got := r.Values("tmpfs.capacity"); !strings.Contains(got, dir+"=1024") {
			t.Errorf("tmpfs.capacity is %q", got)
		}
	}
	if !pending() {
		t.Error("the call is not pending")
	}
	unix.Close(fuse) // ends all calls
	closed = true
	testutil.Eventually(t, "the abandoned call has returned", func() bool { return !pending() })
}

// No file of a container is open between requests. It would keep name spaces alive
// and file systems busy.
func TestContainerStaysClosed(t *testing.T) {
	pid := startFakeContainer(t, func() error { return nil })
	root := roottest.Start(t)
	root.Set("box", roottest.Container{PID: pid})
	r := newContainerHarness(t, Options{Pmdaroot: root.Socket})
	open := func() (list []string) {
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.HasPrefix(to, fmt.Sprintf("/proc/%d/", pid)) {
				list = append(list, to)
			}
		}
		return list
	}
	for _, name := range []string{"filesys.capacity", "network.interface.in.bytes", "network.interface.inet_addr", "kernel.all.load"} {
		setContainer(r, "box")
		r.Values(name)
		if list := open(); len(list) > 0 {
			t.Errorf("after %s %v are open", name, list)
		}
	}
	if v := r.Agent.(*viewAgent); v.containers[pid].container.root != nil {
		t.Error("the root of the container is open")
	}
}
