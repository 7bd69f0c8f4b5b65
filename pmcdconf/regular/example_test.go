package regular_test

import (
	"fmt"

	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// A device that never ends is not read.
func ExampleReadFile() {
	_, err := regular.ReadFile("/dev/zero", 64<<10)
	fmt.Println(err)
	// Output: open /dev/zero: not a regular file
}
