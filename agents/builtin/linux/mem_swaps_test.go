package linux

import (
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

func TestSwaps(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n" +
		"/dev/vda2                               partition\t1048572\t\t572\t\t-2\n/swap\\040file file 100 200 5\n" +
		"/dev/vdb partition x 5 y\nnothing file 1 2 3\n/dev/vda2 partition 1 1 1\n/dev/vdc\n"})
	newHarness(t, Options{Root: root}).Want(map[string]string{
		"swapdev.free":     "/dev/vda2=1048000 /swap\\040file=0",
		"swapdev.length":   "/dev/vda2=1048572 /swap\\040file=100",
		"swapdev.maxswap":  "/dev/vda2=1048572 /swap\\040file=100",
		"swapdev.vlength":  "/dev/vda2=0 /swap\\040file=0 /dev/vdb=0 /dev/vdc=0",
		"swapdev.priority": "/dev/vda2=-2 /swap\\040file=5",
	})
}
