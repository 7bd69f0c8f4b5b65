package conn

import (
	"fmt"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/testutil"
)

// A link-local address is that of an interface, by name if it has one.
func TestZone(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		testutil.Missing(t, err)
	}
	defer unix.Close(fd)
	list, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		if got := zoneName(fd, uint32(i.Index)); got != i.Name {
			t.Errorf("interface %d: got %q, want %q", i.Index, got, i.Name)
		}
	}
	if got := zoneName(fd, 1<<30); got != fmt.Sprint(1<<30) {
		t.Errorf("no interface: got %q", got)
	}
}
