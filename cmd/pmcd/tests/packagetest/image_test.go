package packagetest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// testImage runs the programs in bin as the image does: as the first process, without
// rights, in a root directory that cannot be written to. In the short form name spaces stand
// for a container engine.
func testImage(t *testing.T, bin string) {
	testutil.NeedRoot(t)
	testutil.NeedCapability(t, unix.CAP_SYS_ADMIN) // for name spaces
	source, err := filepath.Abs("../../../../etc/packaging/image")
	if err != nil {
		t.Fatal(err)
	}
	// The socket's name has to be short, and other users may look into the directory.
	dir, err := os.MkdirTemp("/tmp", "image")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	command(t, ".", "sh", filepath.Join(source, "root.sh"), bin, filepath.Join(dir, "root"))
	t.Run("name spaces", func(t *testing.T) {
		pid := runImage(t, dir, spacesScript, false)
		for _, probe := range probes(t, filepath.Join(source, "daemonset.yaml")) {
			args := append([]string{"nsenter", "-t", strconv.Itoa(pid), "-m", "-p", "-r", "-S", "65532", "-G", "65532"}, probe...)
			if said := command(t, "/", args...); !strings.Contains(said, "listening: ") {
				t.Errorf("%q: %s", probe, said)
			}
		}
		testExporter(t, pid, filepath.Join(source, "daemonset.yaml"))
	})
	t.Run("name spaces with / of the host", func(t *testing.T) { runImage(t, dir, spacesWithRootScript, true) })
	if os.Getenv("PMCD_LONG") != "" {
		t.Run("podman", func(t *testing.T) {
			testutil.NeedProgram(t, "podman")
			command(t, dir, "cp", filepath.Join(source, "Dockerfile"), ".")
			pid := runImage(t, dir, podmanScript, false)
			// What the DaemonSet asks.
			said := command(t, dir, "nsenter", "-t", strconv.Itoa(pid), "-m", "-p", "sh", "-c", `cd "$0" && `+podmanCommand+" exec -i pmcd /usr/bin/pmcdctl status --ready", dir)
			if !strings.Contains(said, "listening: ") {
				t.Errorf("pmcdctl status: %s", said)
			}
		})
	}
}

// testExporter runs the exporter of a DaemonSet beside the pmcd of a process.
func testExporter(t *testing.T, pid int, path string) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`command: \[(/usr/bin/pmcd-prometheus), --listen, "(:\d+)"\]`).FindSubmatch(b)
	if m == nil {
		t.Fatalf("%s has no exporter", path)
	}
	cmd := exec.CommandContext(t.Context(), "nsenter", "-t", strconv.Itoa(pid), "-m", "-n", "-r", "-S", "65532", "-G", "65532", string(m[1]), "--listen", string(m[2]))
	cmd.Env = []string{"PCP_RUN_DIR=/run/pcp"}
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return peer.DialFrom(pid, "tcp", "127.0.0.1"+string(m[2]))
	}}}
	for _, get := range []struct{ path, has string }{{"/readyz", ""}, {"/metrics", "\nkernel_all_load{"}} {
		var text []byte
		if !testutil.Until(testutil.Hangs, func() bool {
			r, err := client.Get("http://node7" + get.path)
			if err != nil {
				return false
			}
			defer r.Body.Close()
			text, err = io.ReadAll(r.Body)
			return err == nil && r.StatusCode == http.StatusOK
		}) || !strings.Contains(string(text), get.has) {
			t.Errorf("%s: %s\n%s", get.path, text, log.String())
		}
	}
}

// probes returns the commands that a DaemonSet runs in its containers.
func probes(t *testing.T, path string) (commands [][]string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`exec: \{command: \[(.*)\]\}`).FindAllSubmatch(b, -1) {
		commands = append(commands, strings.Split(string(m[1]), ", "))
	}
	if len(commands) == 0 {
		t.Fatalf("%s has no probe that is a command", path)
	}
	return commands
}

// The scripts run the image whose root directory is root, with the directory run as a volume,
// until they are killed.
const (
	spacesScript         = spacesBegin + spacesEnd
	spacesWithRootScript = spacesBegin + "mount --rbind / root/host && mount -o remount,ro,bind root/host\n" + spacesEnd

	spacesBegin = `set -e
mount --make-rprivate /
mount --bind root root
`
	spacesEnd = `mkdir -p root/host/proc root/host/sys
mount --bind run root/run/pcp
mount --rbind /proc root/host/proc && mount --rbind /sys root/host/sys
mount -t proc proc root/proc
mount -o remount,ro,bind root
ip link set lo up
export PMCD_HOST_ROOT=/host PCP_RUN_DIR=/run/pcp
exec setpriv --bounding-set=-all,+sys_chroot,+setuid,+setgid --no-new-privs \
	chroot --userspec=65532:65532 root /usr/bin/pmcd -f --embedded -i INADDR_ANY -H node7`

	podmanCommand = `podman --root "$PWD/store" --runroot "$PWD/state" --storage-driver vfs --cgroup-manager cgroupfs --events-backend none`

	// podman writes to /run, /dev/shm and /var/lib, too. crun refuses control groups of versions 1 and 2 at
	// once; no container gets any here. Limits cannot be raised without CAP_SYS_RESOURCE.
	// crun makes the container's user the owner of the standard input, which is the host's /dev/null
	// without -i.
	podmanScript = `set -e
mount --make-rprivate /
mkdir -p proc
mount --rbind /proc proc
mount -t proc proc /proc
umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /var/lib/containers
for d in /run /dev/shm /var/lib/containers; do mount -t tmpfs tmpfs $d; done
` + podmanCommand + ` build -q -t pmcd . >/dev/null
exec ` + podmanCommand + ` run -i --rm --name pmcd --network none --cgroups disabled \
	--ulimit nofile=1024:4096 --ulimit nproc=4096:4096 \
	--read-only --read-only-tmpfs=false --cap-drop all --security-opt no-new-privileges \
	-v "$PWD/run:/run/pcp" -v "$PWD/proc:/host/proc:ro" -v /sys:/host/sys:ro \
	pmcd -i INADDR_ANY -H node7`
)

// runImage runs the image by a script in name spaces of their own until the end of the test,
// asks for values, and returns the number of the script's process. withRoot says whether / of
// the host is mounted.
func runImage(t *testing.T, dir, script string, withRoot bool) (pid int) {
	t.Helper()
	run := filepath.Join(dir, "run") // what a volume would be
	if err := errors.Join(os.RemoveAll(run), os.Mkdir(run, 0o755), os.Chown(run, 65532, 65532)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	// It is the first process, whose end is that of all in the name space.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(stderr); s.Scan(); {
			lines <- s.Text()
		}
	}()
	var log []string
	t.Cleanup(func() {
		cmd.Process.Kill()
		for line := range lines {
			log = append(log, line)
		}
		cmd.Wait()
		if t.Failed() {
			t.Logf("its standard error output:\n%s", strings.Join(log, "\n"))
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Hangs)
	defer cancel()
	for ready := false; !ready; {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatal("pmcd has ended")
			}
			log = append(log, line)
			ready = strings.Contains(line, "pmcd: PID = 1, ") // the log is on the standard error output
		case <-ctx.Done():
			t.Fatal("pmcd has not started")
		}
	}
	client, err := pmapi.Dial(ctx, "unix:"+filepath.Join(run, "pmcd.socket"), pmapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	g := client.NewGroup()
	var name string
	item := pmapi.Bind(g, &name, "pmcd.hostname", pmapi.ItemOptions{})
	if _, err := g.Fetch(ctx); err != nil || item.Err() != nil || name != "node7" {
		t.Errorf("pmcd.hostname: %q, %v, %v", name, err, item.Err())
	}
	names := []string{"kernel.all.load", "mem.physmem", "kernel.all.cpu.user", "proc.psinfo.pid"}
	ids, err := client.Lookup(ctx, names...)
	if err != nil {
		t.Fatal(err)
	}
	var r pmapi.Result
	if err := client.Fetch(ctx, ids, &r); err != nil {
		t.Fatal(err)
	}
	for i, set := range r.Sets {
		if set.Err < 0 || len(set.Values) == 0 {
			t.Errorf("%s: %v, %d values", names[i], set.Err, len(set.Values))
		}
	}
	// The processes are those of the host.
	if !slices.ContainsFunc(r.Sets[3].Values, func(v pdu.Value) bool { return v.Inst == int32(os.Getpid()) }) {
		t.Errorf("%s: this process is not one of %d", names[3], len(r.Sets[3].Values))
	}
	checkFilesystems(t, ctx, client, withRoot)
	return cmd.Process.Pid
}

// checkFilesystems checks that the sizes of file systems are those of the host, or have no
// values.
func checkFilesystems(t *testing.T, ctx context.Context, client *pmapi.Client, withRoot bool) {
	t.Helper()
	g := client.NewGroup()
	var dirs []pmapi.Instance[string]
	var sizes []pmapi.Instance[uint64]
	pmapi.BindAll(g, &dirs, "filesys.mountdir", pmapi.ItemOptions{})
	pmapi.BindAll(g, &sizes, "filesys.capacity", pmapi.ItemOptions{})
	if _, err := g.Fetch(ctx); err != nil {
		t.Fatal(err)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs("/", &st); err != nil {
		t.Fatal(err)
	}
	root := slices.IndexFunc(dirs, func(i pmapi.Instance[string]) bool { return i.Value == "/" })
	if root < 0 {
		t.Fatalf("filesys.mountdir: %v", dirs)
	}
	want := func(i pmapi.Instance[uint64]) bool {
		return i.Name == dirs[root].Name && i.Value == st.Blocks*uint64(st.Bsize)/1024
	}
	if withRoot && !slices.ContainsFunc(sizes, want) || !withRoot && len(sizes) > 0 {
		t.Errorf("filesys.mountdir: %v, filesys.capacity: %v", dirs, sizes)
	}
}
