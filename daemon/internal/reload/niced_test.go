package reload

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/testutil"
)

// runNiced leaves no thread with a lower priority behind. The main thread keeps
// its priority: goroutines run on it as on other threads.
func TestRunNiced(t *testing.T) {
	niceness := func(tid int) int {
		n, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
		if err != nil { // it has ended
			return -1
		}
		return 20 - n
	}
	own := niceness(os.Getpid())
	if own > 16 {
		testutil.Missing(t, "there is no lower priority")
	}
	for range 100 {
		got, err := await(t.Context(), new(Reloader), "counts", func() int { return runNiced(func() int { return niceness(0) }) })
		if err != nil || got != own+3 {
			t.Fatalf("%d, %v, want %d", got, err, own+3)
		}
	}
	testutil.Eventually(t, "all threads have the priority of before", func() bool {
		list, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			tid, _ := strconv.Atoi(e.Name())
			if n := niceness(tid); n > own {
				return false
			}
		}
		return true
	})
}
