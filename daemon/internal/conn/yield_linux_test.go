package conn

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents/rawio"
	"github.com/gopcp/pmcd/agents/testutil"
)

// A session can let others compute during a Write that is long, even if the system takes
// all of it at once.
func TestYieldInWrite(t *testing.T) {
	r, w, err := os.Pipe() // with room for more than a socket can be sure to have
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	const room = 1 << 20
	raw.Control(func(fd uintptr) { _, err = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, room) })
	if err != nil {
		testutil.Missing(t, err)
	}
	s := new(echo)
	c := &linuxConn{session: s}
	c.writer.Init(raw)
	for _, tt := range []struct{ size, rest, yields int }{
		{rawio.MaxSyscallBytes, 0, 0},
		{room - rawio.MaxSyscallBytes, 0, 2},
		{2 * rawio.MaxSyscallBytes, 2 * rawio.MaxSyscallBytes, 0}, // there is no room
	} {
		s.yields.Store(0)
		rest, err := c.writeNow(make([]byte, tt.size))
		if n := s.yields.Load(); len(rest) != tt.rest || int(n) != tt.yields || err != nil {
			t.Errorf("a write of %d bytes: %d are left, %d calls of Yield, %v; want %d and %d", tt.size, len(rest), n, err, tt.rest, tt.yields)
		}
	}
}
