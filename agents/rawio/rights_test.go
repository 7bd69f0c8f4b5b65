package rawio

import (
	"syscall"
	"testing"
)

func unixPair(t *testing.T) (fds [2]int) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fds
}

// Bytes with descriptors are not taken, and what is before them is read.
func TestReadNoRights(t *testing.T) {
	fds := unixPair(t)
	defer syscall.Close(fds[0])
	defer syscall.Close(fds[1])
	// A sender's credentials are no descriptors.
	if err := syscall.SetsockoptInt(fds[0], syscall.SOL_SOCKET, syscall.SO_PASSCRED, 1); err != nil {
		t.Fatal(err)
	}
	if err := RefuseRights(uintptr(fds[0])); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	read := func(want string, wantErr error) {
		t.Helper()
		n, err := ReadNoRights(uintptr(fds[0]), b)
		if got := string(b[:n]); got != want || err != wantErr {
			t.Errorf("got %q, %v, want %q, %v", got, err, want, wantErr)
		}
	}
	read("", syscall.EAGAIN)
	syscall.Write(fds[1], []byte("one"))
	syscall.Write(fds[1], []byte(" two"))
	read("one two", nil)
	if err := syscall.Sendmsg(fds[1], []byte("three"), syscall.UnixRights(0), nil, 0); err != nil {
		t.Fatal(err)
	}
	read("", ErrRights)
	read("", ErrRights) // it is still there
	if _, err := WaitNoRights(uintptr(fds[0]), b); err != ErrRights {
		t.Errorf("peek: %v", err)
	}
	if n, err := syscall.Read(fds[0], b); string(b[:max(n, 0)]) != "three" {
		t.Errorf("left: %q, %v", b[:max(n, 0)], err)
	}
	syscall.Shutdown(fds[1], syscall.SHUT_WR)
	read("", nil)
}
