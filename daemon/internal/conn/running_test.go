package conn

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// greeter listens and greets as pmcd does, with what it is given.
func greeter(t *testing.T, network, addr string, greeting []byte) net.Listener {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Write(greeting)
			conn.Close()
		}
	}()
	return l
}

// A pmcd that is running keeps its sockets, and a second one does not open any.
// Sockets of other programs are left alone. A socket that no process has any more is
// replaced.
func TestListenBesideOthers(t *testing.T) {
	hello, err := pdu.Append(nil, 0, &pdu.Error{Greeting: true})
	if err != nil {
		t.Fatal(err)
	}
	refusal, err := pdu.Append(nil, 0, &pdu.Error{Greeting: true, Code: pdu.ErrnoPermission})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		greeting  []byte
		network   string
		isRunning bool
	}{
		{"a pmcd at the port", hello, "tcp4", true},
		{"a pmcd at the port that refuses", refusal, "tcp4", true},
		{"something else at the port", []byte("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"), "tcp4", false},
		{"silence at the port", nil, "tcp4", false},
		{"a pmcd at the socket", hello, "unix", true},
		{"something else at the socket", []byte("220 mail.example.com ESMTP ready\r\n"), "unix", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			unix := filepath.Join(t.TempDir(), "sock")
			ports := []int{0}
			if c.network == "unix" {
				greeter(t, "unix", unix, c.greeting)
			} else {
				ports = append(ports, greeter(t, "tcp4", "127.0.0.1:0", c.greeting).Addr().(*net.TCPAddr).Port)
			}
			before, _ := os.Stat(unix)
			l, err := Listen([]string{"127.0.0.1"}, ports, unix)
			if c.isRunning != errors.Is(err, ErrRunning) {
				t.Fatalf("got %v", err)
			}
			if c.isRunning {
				after, _ := os.Stat(unix)
				if (before == nil) != (after == nil) || before != nil && !os.SameFile(before, after) {
					t.Errorf("the socket was %v and is %v", before, after)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			// The ports and the Unix socket, without the one that is in use.
			if want := len(ports); len(l.Addrs()) != want {
				t.Errorf("listens at %v, want %d sockets", l.Addrs(), want)
			}
			if c.network == "unix" {
				if l.Close(); !listens(unix) {
					t.Error("the other one's socket is gone")
				}
			}
		})
	}
}

// listens reports whether a process listens at a Unix socket.
func listens(unix string) bool {
	conn, err := net.DialTimeout("unix", unix, time.Second)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// A pmcd that is about to end is waited for.
func TestListenAfterLast(t *testing.T) {
	hello, err := pdu.Append(nil, 0, &pdu.Error{Greeting: true})
	if err != nil {
		t.Fatal(err)
	}
	l := greeter(t, "tcp4", "127.0.0.1:0", hello)
	time.AfterFunc(100*time.Millisecond, func() { l.Close() })
	next, err := Listen([]string{"127.0.0.1"}, []int{l.Addr().(*net.TCPAddr).Port}, "")
	if err != nil {
		t.Fatal(err)
	}
	next.Close()
}

// A user that may change the directory of the socket, as the user that pmcd becomes
// may, cannot have the mode of another file changed: the socket has its mode from the
// bind on.
func TestUnixSocketMode(t *testing.T) {
	dir := t.TempDir()
	path, secret := filepath.Join(dir, "sock"), filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 300 {
		swapped := make(chan os.FileMode)
		go func() {
			for os.Rename(path, path+".old") != nil {
				runtime.Gosched()
			}
			os.Symlink(secret, path)
			fi, _ := os.Lstat(path + ".old")
			swapped <- fi.Mode()
		}()
		l, err := Listen(nil, nil, path)
		if mode := <-swapped; mode != fs.ModeSocket|0o666 {
			t.Fatalf("the socket has mode %v", mode)
		}
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		os.Remove(path)
		if fi, err := os.Lstat(secret); err != nil || fi.Mode() != 0o600 {
			t.Fatalf("another file has mode %v, %v", fi.Mode(), err)
		}
	}
}

// Close returns an error if what is at the place of the socket cannot be removed.
func TestCloseSaysWhatIsLeft(t *testing.T) {
	for name, stays := range map[string]bool{"sock": false, "gone": false, "full": true} {
		path := filepath.Join(t.TempDir(), name)
		l, err := Listen([]string{"127.0.0.1"}, []int{0}, path)
		if err != nil {
			t.Fatal(err)
		}
		switch name {
		case "gone":
			os.Remove(path)
		case "full":
			os.Remove(path)
			if err := os.MkdirAll(filepath.Join(path, "dir"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); (err != nil) != stays {
			t.Errorf("%s: got %v", name, err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("%s, once more: got %v", name, err)
		}
	}
}
