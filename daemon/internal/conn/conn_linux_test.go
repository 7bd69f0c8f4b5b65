package conn

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents/rawio"
)

// An unannounced read copies rawio.MaxSyscallBytes at most, however large the buffer
// is.
func TestReadIsLimited(t *testing.T) {
	const size = 2 * rawio.MaxSyscallBytes
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	if _, err := unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, size); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Write(fds[1], make([]byte, size)); n != size {
		t.Fatal(n, err)
	}
	var c linuxConn
	for range 2 {
		if n, err := c.readNow(uintptr(fds[0]), make([]byte, size)); n != rawio.MaxSyscallBytes || err != nil {
			t.Errorf("got %d bytes, %v, want %d", n, err, rawio.MaxSyscallBytes)
		}
	}
}
