package linux

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// A fetch that ends early, in a read of a file or between values, leaves nothing behind.
func TestFetchEndsEarly(t *testing.T) {
	root := bigTree(t, 80, 100, 300)
	var mounts, sockets strings.Builder
	for i := range 300 {
		fmt.Fprintf(&mounts, "/dev/sd%d /mnt/%d ext4 rw 0 0\ntmpfs /run/%d tmpfs rw 0 0\n", i, i, i)
		fmt.Fprintf(&sockets, "%4d: 0100007F:CD78 0100007F:8D45 06 00000000:00000000 03:000014CC 00000000\n", i)
	}
	pmdatest.WriteFile(t, root, "proc/1/mounts", mounts.String())
	pmdatest.WriteFile(t, root, "proc/net/tcp", sockets.String())
	var addrs []ipv4
	for i := range 200 {
		addrs = append(addrs, addr4(fmt.Sprint("veth", i, ":1"), fmt.Sprint("10.0.1.", i)))
	}
	n := pmdatest.CheckEnds(t, func() *pmdatest.Harness {
		return newHarness(t, Options{Root: root, CacheDir: t.TempDir()}, addrs...)
	})
	if n < 250 {
		t.Errorf("%d looks at the context", n)
	}
}
