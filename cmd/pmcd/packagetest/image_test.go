package packagetest

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// testImage runs the programs in bin as the image does: as the first process, without
// rights, in a root directory that cannot be written to. There is no container engine
// here; name spaces do.
func testImage(t *testing.T, bin string) {
	testutil.NeedRoot(t)
	root, err := filepath.Abs(filepath.Join("../../..", "etc/packaging/image/root.sh"))
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
	image := filepath.Join(dir, "root")
	command(t, ".", "sh", root, bin, image)
	run := filepath.Join(dir, "run") // what a volume would be
	if err := os.Mkdir(run, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(run, 65532, 65532); err != nil {
		t.Fatal(err)
	}
	const script = `set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mkdir -p "$1/host/proc" "$1/host/sys"
mount --bind "$2" "$1/run/pcp"
mount --rbind /proc "$1/host/proc" && mount --rbind /sys "$1/host/sys"
mount -t proc proc "$1/proc"
mount -o remount,ro,bind "$1"
ip link set lo up
exec setpriv --bounding-set=-all,+sys_chroot,+setuid,+setgid --no-new-privs \
	chroot --userspec=65532:65532 "$1" /usr/bin/pmcd -f --embedded -i INADDR_ANY -H node7`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script, "sh", image, run)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "PMCD_HOST_ROOT=/host", "PCP_RUN_DIR=/run/pcp"}
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
	defer func() {
		cmd.Process.Kill()
		for line := range lines {
			log = append(log, line)
		}
		cmd.Wait()
		if t.Failed() {
			t.Logf("its standard error output:\n%s", strings.Join(log, "\n"))
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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
	client, err := pmapi.Dial(ctx, "unix:"+filepath.Join(run, "pmcd.socket"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	g := client.NewGroup()
	var name string
	item := pmapi.Bind(g, &name, "pmcd.hostname", nil)
	if _, err := g.Fetch(ctx); err != nil || item.Err() != nil || name != "node7" {
		t.Errorf("pmcd.hostname: %q, %v, %v", name, err, item.Err())
	}
	names := []string{"kernel.all.load", "mem.physmem", "kernel.all.cpu.user", "proc.nprocs"}
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
}
