package rawio

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

// A pair is the two ends of a stream. Bytes written to w are read from r.
type pair struct {
	t    testing.TB
	r, w int
}

// newPair returns a pair of a kind. Its ends have O_NONBLOCK.
func newPair(t testing.TB, kind string) *pair {
	t.Helper()
	var fds [2]int
	var err error
	switch kind {
	case "pipe":
		err = syscall.Pipe2(fds[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK)
	case "unix":
		fds, err = syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	case "tcp":
		fds, err = tcpPair()
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{t, fds[0], fds[1]}
	t.Cleanup(func() {
		p.closeReader()
		p.closeWriter()
	})
	return p
}

func tcpPair() (fds [2]int, err error) {
	ln, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fds, err
	}
	defer syscall.Close(ln)
	if err = syscall.Bind(ln, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return fds, err
	}
	if err = syscall.Listen(ln, 1); err != nil {
		return fds, err
	}
	addr, err := syscall.Getsockname(ln)
	if err != nil {
		return fds, err
	}
	if fds[1], err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0); err != nil {
		return fds, err
	}
	if err = syscall.Connect(fds[1], addr); err != nil && err != syscall.EINTR {
		return fds, err
	}
	if fds[0], _, err = syscall.Accept4(ln, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC); err != nil {
		return fds, err
	}
	return fds, syscall.SetNonblock(fds[1], true)
}

func (p *pair) closeReader() {
	if p.r >= 0 {
		syscall.Close(p.r)
		p.r = -1
	}
}

func (p *pair) closeWriter() {
	if p.w >= 0 {
		syscall.Close(p.w)
		p.w = -1
	}
}

// setBlocking removes O_NONBLOCK from both ends.
func (p *pair) setBlocking() {
	p.t.Helper()
	if err := errors.Join(syscall.SetNonblock(p.r, false), syscall.SetNonblock(p.w, false)); err != nil {
		p.t.Fatal(err)
	}
}

// sendUrgent sends an urgent byte. It skips the test if the kernel has none.
func (p *pair) sendUrgent(b byte) {
	p.t.Helper()
	err := syscall.Sendto(p.w, []byte{b}, syscall.MSG_OOB, nil)
	if err == syscall.EOPNOTSUPP {
		p.t.Skip("the kernel has no urgent bytes in Unix sockets")
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

type ioFunc func(fd uintptr, b []byte) (int, error)

// readAll reads with a small buffer until it has as many bytes as want, and fails
// if they differ. It repeats after EAGAIN: bytes sent over TCP may take a moment.
func (p *pair) readAll(read ioFunc, want string) {
	p.t.Helper()
	got := ""
	b := make([]byte, 7)
	testutil.Eventually(p.t, fmt.Sprintf("%q", want), func() bool {
		n, err := read(uintptr(p.r), b)
		if got += string(b[:n]); err != nil && err != syscall.EAGAIN || n == 0 && err == nil {
			p.t.Fatalf("read %q, then %d, %v", got, n, err)
		}
		return len(got) >= len(want)
	})
	if got != want {
		p.t.Errorf("read %q, want %q", got, want)
	}
}

// ioVariants are all pairs of functions for reading and writing, with each kind of
// stream that they may be used for.
var ioVariants = []struct {
	name, kind  string
	blocking    bool
	guarded     bool
	read, write ioFunc
}{
	{"Read and write", "pipe", false, false, Read, write},
	{"Read and write", "tcp", false, false, Read, write},
	{"Read and write", "unix", false, false, Read, write},
	{"Recv and send", "tcp", false, false, Recv, send},
	{"Recv and send", "unix", false, false, Recv, send},
	{"Recv and send, blocking", "tcp", true, false, Recv, send},
	{"Recv and send, blocking", "unix", true, false, Recv, send},
	{"ReadNoRights", "unix", false, true, ReadNoRights, send},
	{"ReadNoRights, blocking", "unix", true, true, ReadNoRights, send},
	{"WaitNoRights", "unix", false, true, WaitNoRights, send},
}

// forEachVariant runs test for each of ioVariants.
func forEachVariant(t *testing.T, test func(t *testing.T, p *pair, read, write ioFunc)) {
	for _, w := range ioVariants {
		t.Run(w.name+"/"+w.kind, func(t *testing.T) {
			p := newPair(t, w.kind)
			if w.blocking {
				p.setBlocking()
			}
			if w.guarded {
				if err := RefuseRights(uintptr(p.r)); err != nil {
					t.Fatal(err)
				}
			}
			test(t, p, w.read, w.write)
		})
	}
}

// write and send make one call as a [NonblockWriter] does.
func write(fd uintptr, b []byte) (int, error) { return unannounced(syscall.SYS_WRITE, fd, b, 0) }
func send(fd uintptr, b []byte) (int, error)  { return unannounced(sysSendto, fd, b, sendFlags) }

func TestReadAndWrite(t *testing.T) {
	forEachVariant(t, func(t *testing.T, p *pair, read, write ioFunc) {
		if n, err := read(uintptr(p.r), make([]byte, 10)); n != 0 || err != syscall.EAGAIN {
			t.Errorf("read without input: %d, %v", n, err)
		}
		if n, err := write(uintptr(p.w), nil); n != 0 || err != nil {
			t.Errorf("write of no bytes: %d, %v", n, err)
		}
		for _, s := range []string{"one ", "two ", "three"} {
			if n, err := write(uintptr(p.w), []byte(s)); n != len(s) || err != nil {
				t.Fatalf("wrote %d of %q, %v", n, s, err)
			}
		}
		p.readAll(read, "one two three")
		if n, err := read(uintptr(p.r), make([]byte, 10)); n != 0 || err != syscall.EAGAIN {
			t.Errorf("read after all was read: %d, %v", n, err)
		}
	})
}

// A write stops when the buffer is full, and no byte is lost.
func TestWriteUntilFull(t *testing.T) {
	forEachVariant(t, func(t *testing.T, p *pair, read, write ioFunc) {
		var sent []byte
		piece := make([]byte, 10_000)
		for {
			for i := range piece {
				piece[i] = byte((len(sent) + i) % 251)
			}
			n, err := write(uintptr(p.w), piece)
			sent = append(sent, piece[:n]...)
			if err == syscall.EAGAIN {
				break
			}
			if err != nil || n == 0 {
				t.Fatalf("wrote %d, %v, after %d bytes", n, err, len(sent))
			}
		}
		var got []byte
		b := make([]byte, 3_333)
		testutil.Eventually(t, "all bytes", func() bool {
			n, err := read(uintptr(p.r), b)
			if got = append(got, b[:n]...); err != nil && err != syscall.EAGAIN {
				t.Fatal(err)
			}
			return len(got) >= len(sent)
		})
		if !bytes.Equal(got, sent) {
			t.Errorf("read %d bytes, want the %d that were written", len(got), len(sent))
		}
	})
}

func TestEOF(t *testing.T) {
	forEachVariant(t, func(t *testing.T, p *pair, read, write ioFunc) {
		if _, err := write(uintptr(p.w), []byte("last")); err != nil {
			t.Fatal(err)
		}
		p.closeWriter()
		p.readAll(read, "last")
		for range 2 {
			var n int
			err := error(syscall.EAGAIN)
			testutil.Eventually(t, "the end", func() bool {
				n, err = read(uintptr(p.r), make([]byte, 10))
				return err != syscall.EAGAIN
			})
			if n != 0 || err != nil {
				t.Errorf("at the end: %d, %v", n, err)
			}
		}
	})
}

// A write without a reader returns an error and raises no signal. An error for a
// descriptor that is not open comes with 0 bytes.
func TestErrors(t *testing.T) {
	forEachVariant(t, func(t *testing.T, p *pair, read, write ioFunc) {
		p.closeReader()
		var err error
		testutil.Eventually(t, "an error", func() bool { // the first write to a TCP socket succeeds
			_, err = write(uintptr(p.w), []byte("x"))
			return err != nil
		})
		if err != syscall.EPIPE && err != syscall.ECONNRESET {
			t.Error(err)
		}
		closed := ^uintptr(0)
		if n, err := read(closed, make([]byte, 1)); n != 0 || err != syscall.EBADF {
			t.Errorf("read: %d, %v", n, err)
		}
		if n, err := write(closed, make([]byte, 1)); n != 0 || err != syscall.EBADF {
			t.Errorf("write: %d, %v", n, err)
		}
	})
}

// An urgent byte is read only after RefuseRights, which puts it in line.
func TestUrgentByte(t *testing.T) {
	for _, w := range ioVariants {
		if w.kind == "pipe" {
			continue
		}
		t.Run(w.name+"/"+w.kind, func(t *testing.T) {
			p := newPair(t, w.kind)
			want := "ab"
			if w.guarded {
				want = "a!b"
				if err := RefuseRights(uintptr(p.r)); err != nil {
					t.Fatal(err)
				}
			}
			w.write(uintptr(p.w), []byte("a"))
			p.sendUrgent('!')
			w.write(uintptr(p.w), []byte("b"))
			p.readAll(w.read, want)
		})
	}
}

// inSyscall reports whether a thread of this process is in a system call.
func inSyscall(tid int, trap uintptr) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", tid))
	return err == nil && strings.HasPrefix(string(b), fmt.Sprintf("%d ", trap))
}

// A signal does not end the wait of WaitNoRights. With SO_RCVTIMEO the kernel does
// not restart the call itself (signal(7)).
func TestWaitIsInterrupted(t *testing.T) {
	if b, err := os.ReadFile("/proc/self/syscall"); err != nil || len(b) == 0 {
		testutil.Missing(t, "the kernel does not show system calls: ", err)
	}
	p := newPair(t, "unix")
	p.setBlocking()
	if err := RefuseRights(uintptr(p.r)); err != nil {
		t.Fatal(err)
	}
	timeout := syscall.NsecToTimeval(int64(time.Hour))
	if err := syscall.SetsockoptTimeval(p.r, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &timeout); err != nil {
		t.Fatal(err)
	}
	thread := make(chan int)
	done := make(chan error)
	b := make([]byte, 10)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- syscall.Gettid()
		n, err := WaitNoRights(uintptr(p.r), b)
		if err == nil && string(b[:n]) != "x" {
			err = fmt.Errorf("read %q", b[:n])
		}
		done <- err
	}()
	tid := <-thread
	testutil.Eventually(t, "it waits", func() bool { return inSyscall(tid, sysRecvmsg) })
	// The Go runtime handles this signal, and only tries to preempt.
	if err := syscall.Tgkill(syscall.Getpid(), tid, syscall.SIGURG); err != nil {
		t.Fatal(err)
	}
	if _, err := send(uintptr(p.w), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// WaitNoRights waits for SO_RCVTIMEO at most.
func TestWaitTimeout(t *testing.T) {
	p := newPair(t, "unix")
	p.setBlocking()
	if err := RefuseRights(uintptr(p.r)); err != nil {
		t.Fatal(err)
	}
	timeout := syscall.NsecToTimeval(int64(time.Millisecond))
	if err := syscall.SetsockoptTimeval(p.r, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &timeout); err != nil {
		t.Fatal(err)
	}
	if n, err := WaitNoRights(uintptr(p.r), make([]byte, 10)); n != 0 || err != syscall.EAGAIN {
		t.Errorf("read without input: %d, %v", n, err)
	}
}

func TestPread(t *testing.T) {
	recorded := t.TempDir() + "/f"
	if err := os.WriteFile(recorded, []byte("text"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/proc/version", "/sys/devices/system/cpu/possible", recorded} {
		t.Run(path, func(t *testing.T) {
			want, err := os.ReadFile(path)
			if err != nil {
				testutil.Missing(t, err)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			b := make([]byte, 1000)
			for _, off := range []int{0, 1, len(want) - 1, len(want), 0} {
				n, err := Pread(f.Fd(), b, int64(off))
				if err != nil || string(b[:n]) != string(want[off:]) {
					t.Errorf("at %d: %q, %v, want %q", off, b[:n], err, want[off:])
				}
			}
			if n, err := Pread(f.Fd(), nil, 0); n != 0 || err != nil {
				t.Errorf("empty buffer: %d, %v", n, err)
			}
			if n, err := Pread(f.Fd(), b, -1); n != 0 || err != syscall.EINVAL {
				t.Errorf("negative offset: %d, %v", n, err)
			}
		})
	}
	if n, err := Pread(^uintptr(0), make([]byte, 1), 0); n != 0 || err != syscall.EBADF {
		t.Errorf("not open: %d, %v", n, err)
	}
}

func TestPoll(t *testing.T) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fds[0])
	const pollIn, pollHup = 1, 16
	check := func(what string, want int16) {
		t.Helper()
		if got, err := Poll(uintptr(fds[0]), pollIn); err != nil || got != want {
			t.Errorf("%s: events %d, %v; want %d", what, got, err, want)
		}
	}
	check("nothing", 0)
	if _, err := syscall.Write(fds[1], []byte{1}); err != nil {
		t.Fatal(err)
	}
	check("a byte", pollIn)
	syscall.Close(fds[1])
	check("the end behind it", pollIn|pollHup)
}

func TestStatfs(t *testing.T) {
	var want, got syscall.Statfs_t
	if err := errors.Join(syscall.Statfs("/proc", &want), Statfs("/proc", &got)); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if err := Statfs(t.TempDir()+"/none", &got); err != syscall.ENOENT {
		t.Errorf("no such file: %v", err)
	}
	if err := Statfs("/\x00", &got); err != syscall.EINVAL {
		t.Errorf("a NUL byte: %v", err)
	}
}
