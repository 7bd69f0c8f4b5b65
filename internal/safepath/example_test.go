package safepath_test

import (
	"fmt"
	"os"

	"github.com/gopcp/pmcd/internal/safepath"
)

// A program that may be root's replaces a file in a directory of another user.
func Example() {
	if err := replace("/var/lib/pcp/tmp/mmv/example", []byte("text")); err != nil {
		fmt.Println(err)
	}
}

func replace(path string, text []byte) error {
	d, file, err := safepath.OpenParent(path)
	if err != nil {
		return err
	}
	defer d.Close()
	f, err := os.OpenFile(file+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return d.Err(err)
	}
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return err
	}
	return d.Err(os.Rename(file+".new", file))
}
