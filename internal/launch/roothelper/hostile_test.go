package roothelper

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/testutil"
)

// The standard error output of a root process must be a pipe: the reader of a
// socket may trust messages by their sender (SO_PASSCRED).
func TestStderrIsAPipe(t *testing.T) {
	r, list := newHarness(t, "writes 1 pipe binary sh -c \"echo evil >&2\"\n")
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	must(t, err)
	own, socket := os.NewFile(uintptr(ends[0]), "own"), os.NewFile(uintptr(ends[1]), "socket")
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	must(t, err)
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	must(t, err)
	defer closeAll([]*os.File{own, socket, null, file})
	for _, f := range []*os.File{socket, null, file} {
		if p, err := r.Start(t.Context(), &list[0], f); err == nil || !strings.Contains(err.Error(), "is not a pipe") {
			t.Errorf("%s: %v", f.Name(), err)
			if err == nil {
				r.stop(p)
			}
		}
	}
}

// No message of the daemon makes the root helper do anything but its task, or keep
// descriptors or goroutines.
func TestHostile(t *testing.T) {
	r, list := newHarness(t, "echo 1 pipe binary PROGRAM\n")
	p, err := r.start(list[0])
	must(t, err)
	pipe, err := child.NewStderr(os.Stderr)
	must(t, err)
	defer pipe.Close()
	before, _ := os.ReadDir("/proc/self/fd")
	goroutines := runtime.NumGoroutine()
	raw, err := r.conn.SyscallConn()
	must(t, err)
	send := func(b []byte, fds ...int) {
		t.Helper()
		var oob []byte
		if len(fds) > 0 {
			oob = syscall.UnixRights(fds...)
		}
		var err error
		if cerr := raw.Write(func(fd uintptr) bool {
			err = syscall.Sendmsg(int(fd), b, oob, nil, 0)
			return err != syscall.EAGAIN
		}); cerr != nil || err != nil {
			t.Fatal(cerr, err)
		}
	}
	fd := int(pipe.File().Fd())
	good := message{kind: msgStart, id: 99, domain: 1, digest: digest(&list[0])}
	for i := range 2000 {
		send([]byte("\x00"))
		send([]byte("exec /bin/sh"), fd, fd)
		send(make([]byte, 20000))
		send(good.append(nil))                 // no descriptor
		send(good.append(nil), fd, fd)         // one too many
		send(good.append(nil), fd, fd, fd, fd) // more than the receiver has room for
		send((&message{kind: msgStart, id: uint32(1000 + i), domain: 1}).append(nil), fd)
		send((&message{kind: msgStop, id: uint32(i + 1000)}).append(nil), fd)
		send((&message{kind: msgStop, id: uint32(i + 1000), now: true}).append(nil))
		send((&message{kind: msgStarted, id: 1, pid: 1}).append(nil))
		send((&message{kind: msgStopped, id: 1}).append(nil))
		send((&message{kind: msgHostName, id: 1, text: "x"}).append(nil))
		send((&message{kind: msgAskHostName, id: uint32(i)}).append(nil))
		send((&message{kind: msgAskHostName, id: 1, text: strings.Repeat("x", 900)}).append(nil))
		send((&message{kind: msgAskHostName, id: uint32(i), text: "box"}).append(nil))
	}
	checkEcho(t, p)                                                 // it still runs
	testutil.Eventually(t, "an agent can be started", func() bool { // after the last messages above
		q, err := r.start(list[0])
		if err == nil {
			r.stop(q)
		}
		return err == nil
	})
	testutil.Eventually(t, fmt.Sprintf("about %d descriptors and %d goroutines", len(before), goroutines), func() bool {
		after, _ := os.ReadDir("/proc/self/fd")
		return len(after) <= len(before)+2 && // the wait for the end of p may have started since
			runtime.NumGoroutine() <= goroutines+2
	})
	must(t, r.close())
}

// Descriptor 3 may be anything if the program is not started by pmcd.
func TestServeNoSocket(t *testing.T) {
	null, err := os.Open("/dev/null")
	must(t, err)
	if err := Serve(null, Config{}); err == nil {
		t.Error("served /dev/null")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	must(t, err)
	if err := Serve(f, Config{}); err == nil {
		t.Error("served a listener")
	}
}
