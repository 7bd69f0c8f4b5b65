package linux

import (
	"fmt"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// Another clock frequency than 100, as in recordings of other machines.
func TestHertz(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"proc/stat": "cpu  1024 1 1025 18446744073709551615\n"})
	r := newHarness(t, Options{Root: root, Hertz: 1024})
	r.Want(map[string]string{
		"kernel.all.cpu.user": "1000",
		"kernel.all.cpu.nice": "0",
		"kernel.all.cpu.sys":  "1000",
		"kernel.all.cpu.idle": "18014398509481983999",
	})
}

// The agent hides small decreases of iowait in the file.
func TestIowaitDoesNotDecrease(t *testing.T) {
	root := pmdatest.Tree(t, nil)
	r := newHarness(t, Options{Root: root})
	for _, tt := range []struct{ ticks, want int }{
		{500, 5000}, {499, 5000}, {401, 5000}, {502, 5020}, {402, 4020}, {50, 500}, {49, 500}, {0, 500}, {51, 510},
	} {
		pmdatest.WriteFile(t, root, "proc/stat", fmt.Sprintf("cpu 0 0 0 0 %d\ncpu0 0 0 0 0 %[1]d\n", tt.ticks))
		r.Want(map[string]string{
			"kernel.all.cpu.wait.total":    fmt.Sprint(tt.want),
			"kernel.percpu.cpu.wait.total": fmt.Sprint("cpu0=", tt.want),
		})
	}
}
