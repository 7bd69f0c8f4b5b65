package conn

import (
	"errors"
	"net"
	"path/filepath"
	"syscall"
	"testing"
)

// Without an accept, as many connections as the backlog allows, and one more, wait.
func TestSetBacklog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	l, err := Listen([]string{"127.0.0.1"}, []int{0}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.SetBacklog(3); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(fd)
		err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path})
		if errors.Is(err, syscall.EAGAIN) && n == 4 {
			break
		}
		if err != nil || n == 4 {
			t.Fatalf("connection %d: %v", n, err)
		}
	}
	conn, err := net.Dial("tcp", l.Addrs()[1].String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
