package pmdaroot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/pmdaroot/roottest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

var greeting = words(info, 24, 0, 2, 7, 0)

func words(ns ...int32) []byte {
	var b []byte
	for _, n := range ns {
		b = binary.NativeEndian.AppendUint32(b, uint32(n))
	}
	return b
}

// startFake starts a pmdaroot that sends the same reply to every request. The
// channel has the requests.
func startFake(t *testing.T, greeting, reply []byte) (*Client, chan []byte) {
	t.Helper()
	path := filepath.Join(testutil.SharedDir(t), "root.socket")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	requests := make(chan []byte, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Write(greeting)
			head := make([]byte, 24)
			if _, err := io.ReadFull(conn, head); err == nil {
				name := make([]byte, binary.NativeEndian.Uint32(head[20:]))
				io.ReadFull(conn, name)
				requests <- append(head, name...)
				conn.Write(reply)
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	c := &Client{Path: path}
	t.Cleanup(c.Close)
	return c, requests
}

func TestRequests(t *testing.T) {
	name := func(typ int32, text string) []byte {
		return append(words(typ, int32(24+len(text)), 0, 2, 0, int32(len(text))), text...)
	}
	process := func(s *Client, c string) (any, error) { return s.ProcessID(c) }
	host := func(s *Client, c string) (any, error) { return s.HostName(c) }
	cgroup := func(s *Client, c string) (any, error) { return s.Cgroup(c) }
	for _, tt := range []struct {
		name            string
		call            func(*Client, string) (any, error)
		typ             int32
		greeting, reply []byte
		want            any
		err             error
	}{
		{"a process", process, 0x9003, greeting, words(0x9004, 24, 0, 2, 4711, 0), 4711, nil},
		{"version 1", process, 0x9003, words(info, 24, 0, 1, 7, 0), words(0x9004, 24, 0, 1, 4711, 0), 4711, nil},
		{"a container that does not run", process, 0x9003, greeting, words(0x9004, 24, 0, 2, -1, 0), -1, pdu.ErrnoNoContainer},
		{"no container", process, 0x9003, greeting, words(0x9004, 24, -12399, 2, 0, 0), 0, pdu.ErrnoNoContainer},
		{"a host name", host, 0x9001, greeting, name(0x9002, "box"), "box", nil},
		{"no permission for the name space", host, 0x9001, greeting, words(0x9002, 24, -1, 2, 0, 0), "", pdu.Errno(-1)},
		{"a group", cgroup, 0x9005, greeting, name(0x9006, "docker/abc"), "docker/abc", nil},
		{"a group with a slash", cgroup, 0x9005, greeting, name(0x9006, "/docker/abc/"), "docker/abc", nil},
		{"no group", cgroup, 0x9005, greeting, name(0x9006, ""), "", pdu.ErrnoNoContainer},
		{"the reply to another request", cgroup, 0x9005, greeting, name(0x9004, "docker/abc"), "", ErrMessage},
		{"a name that is too long", cgroup, 0x9005, greeting, name(0x9006, strings.Repeat("x", maxName)), "", ErrMessage},
		{"a name of negative length", cgroup, 0x9005, greeting, words(0x9006, 20, 0, 2, 0, -4), "", ErrMessage},
		{"bytes after the name", cgroup, 0x9005, greeting, append(words(0x9006, 28, 0, 2, 0, 1), "abcd"...), "", ErrMessage},
		{"half a name", cgroup, 0x9005, greeting, append(words(0x9006, 34, 0, 2, 0, 10), "abcd"...), "", io.ErrUnexpectedEOF},
		{"a NUL", cgroup, 0x9005, greeting, name(0x9006, "a\x00b"), "", ErrMessage},
		{"no reply", cgroup, 0x9005, greeting, nil, "", io.EOF},
		{"a later version", cgroup, 0x9005, greeting, words(0x9006, 24, 0, 3, 0, 0), "", ErrMessage},
		{"a greeting with an error", cgroup, 0, words(info, 24, -13, 2, 0, 0), nil, "", pdu.Errno(-13)},
		{"no greeting", cgroup, 0, words(0x9006, 24, 0, 2, 0, 0), nil, "", ErrMessage},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, requests := startFake(t, tt.greeting, tt.reply)
			got, err := tt.call(s, "c1")
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("got %v, %v, want %v, %v", got, err, tt.want, tt.err)
			}
			if errors.Is(err, ErrMessage) && !errors.Is(err, pdu.ErrnoNotConn) {
				t.Errorf("%v is not PM_ERR_NOTCONN for clients", err)
			}
			if tt.typ != 0 {
				want := append(words(tt.typ, 26, 0, 2, 0, 2), "c1"...)
				if q := <-requests; !bytes.Equal(q, want) {
					t.Errorf("the request is\n%x, want\n%x", q, want)
				}
			}
		})
	}
}

func TestNoPmdaroot(t *testing.T) {
	s := &Client{Path: filepath.Join(t.TempDir(), "root.socket")}
	if _, err := s.ProcessID("c1"); !errors.Is(err, pdu.ErrnoNotConn) {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"", strings.Repeat("x", maxName)} {
		if _, err := s.ProcessID(name); err != pdu.ErrnoNoContainer {
			t.Errorf("a name of %d bytes: got %v", len(name), err)
		}
	}
	t.Setenv("PCP_VAR_DIR", "/x")
	if got := Default(); got != "/x/pmcd/root.socket" {
		t.Errorf("got %s", got)
	}
}

// A connection serves many requests. After it was closed, by either side, the
// next request connects again.
func TestConnections(t *testing.T) {
	root := roottest.Start(t)
	root.Set("box", roottest.Container{PID: 5, Host: "boxed", Cgroup: "docker/box"})
	c := &Client{Path: root.Socket}
	defer c.Close()
	for want, before := range []func(){func() {}, root.Disconnect, c.Close} {
		before()
		if pid, err := c.ProcessID("box"); pid != 5 || err != nil {
			t.Errorf("process %d, %v", pid, err)
		}
		if _, err := c.ProcessID("unknown"); err != pdu.ErrnoNoContainer {
			t.Errorf("an unknown container: %v", err)
		}
		host, err := c.HostName("box")
		group, err2 := c.Cgroup("box")
		if host != "boxed" || group != "docker/box" || err != nil || err2 != nil {
			t.Errorf("%q, %q, %v, %v", host, group, err, err2)
		}
		if n := root.Connections(); n != want+1 {
			t.Errorf("%d connections, want %d", n, want+1)
		}
	}
	root.Close()
	if _, err := c.ProcessID("box"); !errors.Is(err, pdu.ErrnoNotConn) {
		t.Errorf("without a pmdaroot: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(greeting)
	f.Add(append(words(0x9006, 27, 0, 2, 0, 3), "abc"...))
	f.Add(words(0x9004, 24, -12399, 2, -1, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := read(bytes.NewReader(b))
		if err != nil || m.typ == info {
			return
		}
		again, err := read(bytes.NewReader(m.append(nil)))
		if err != nil || again != m {
			t.Errorf("%+v becomes %+v, %v", m, again, err)
		}
	})
}

// A socket at which another user than root listens gets no request.
func TestListenerOfAnotherUser(t *testing.T) {
	testutil.NeedRoot(t)
	path := filepath.Join(testutil.SharedDir(t), "root.socket")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	// SO_PEERCRED has the user of the thread that calls listen(2).
	seteuid := func(uid int) {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			t.Fatal(errno)
		}
	}
	runtime.LockOSThread()
	seteuid(65534)
	err = syscall.Listen(fd, 1)
	seteuid(0)
	runtime.UnlockOSThread()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.Write(greeting)
		conn.Write(words(processReq+1, 24, 0, 2, 1, 0))
	}()
	defer func() {
		l.Close()
		<-done
	}()
	c := Client{Path: path}
	if pid, err := c.ProcessID("box"); !errors.Is(err, pdu.ErrnoNotConn) || !strings.Contains(err.Error(), "65534") {
		t.Errorf("process %d, %v", pid, err)
	}
}
