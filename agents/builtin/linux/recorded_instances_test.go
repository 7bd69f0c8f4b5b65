package linux

import (
	"testing"
)

// testdata/vm was recorded on a virtual machine with two CPUs; of /proc/slabinfo
// it has the first lines.
func TestRecordedInstances(t *testing.T) {
	r := newRig(t, Options{Root: "testdata/vm", PageSize: 4096, Access: true})
	r.Want(map[string]string{})
}
