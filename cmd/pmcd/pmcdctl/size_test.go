package main

import (
	"os"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// "make build" makes a pmcdctl of less than 12 MB. mustNotLink of TestImports has packages that would
// make it larger. Of packages that it has anyway, a part that calls methods by their names does.
func TestSize(t *testing.T) {
	path, err := peer.Plain("pmcdctl", "./cmd/pmcd/pmcdctl")
	if err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Size() > 12e6 {
		t.Errorf("pmcdctl has %d bytes", fi.Size())
	}
}
