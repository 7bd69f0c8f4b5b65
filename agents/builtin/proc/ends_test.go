package proc

import (
	"fmt"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// A fetch that ends early, in a read of directories or between values, leaves nothing
// behind.
func TestFetchEndsEarly(t *testing.T) {
	root := manyTree(t, 500)
	pmdatest.WriteFile(t, root, "proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
	pmdatest.WriteFile(t, root, "proc/1/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
	pmdatest.WriteFile(t, root, "proc/diskstats", " 254 0 vda 1 2 3 4 5 6 7 8 9 10 11\n")
	for i := range 200 {
		pmdatest.WriteFile(t, root, fmt.Sprintf("sys/fs/cgroup/g%d/io.stat", i), fmt.Sprintf("254:0 rbytes=%d wbytes=2 rios=3 wios=4 dbytes=5 dios=6\n", i))
		pmdatest.WriteFile(t, root, fmt.Sprintf("sys/fs/cgroup/g%d/cpu.stat", i), "user_usec 1\nsystem_usec 2\nusage_usec 3\n")
	}
	n := pmdatest.CheckEnds(t, func() *pmdatest.Harness { return newHarness(t, Options{Root: root}).Harness })
	if n < 100 {
		t.Errorf("%d looks at the context", n)
	}
}
