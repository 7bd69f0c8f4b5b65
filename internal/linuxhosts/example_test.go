package linuxhosts_test

import (
	"fmt"

	"github.com/gopcp/pmcd/internal/linuxhosts"
)

// The functions can be combined. A test writes the files to a directory with
// pmdatest.Tree.
func ExampleJoin() {
	files := linuxhosts.Join(
		linuxhosts.Disks(linuxhosts.Linux6_12, 300),
		linuxhosts.NUMA(4, 256),
		linuxhosts.Files{"proc/sys/kernel/hostname": "large\n"},
	)
	fmt.Print(files["proc/sys/kernel/hostname"])
	// Output:
	// large
}
