package main

import (
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/grouplimit"
)

// cpusEvery is how often pmcd checks how many CPUs it may use. Tests have less.
var cpusEvery = time.Minute

// useCPUs has the Go runtime use one thread more than there are CPUs, unless an admin has set
// GOMAXPROCS. With one for each, its scheduler polls the network every 10 ms while all of them serve
// requests. With one more, Linux divides the CPUs between them: decision 14 has the figures.
//
// The runtime then no longer follows the number of CPUs: watchCPUs does. The runtime would use two CPUs
// for a limit below two, and does not know the limits of the groups above that of this process.
func (s *server) useCPUs() {
	if n, err := strconv.ParseInt(os.Getenv("GOMAXPROCS"), 10, 32); err != nil || n <= 0 { // as the runtime reads it
		s.cpus = usableCPUs()
		runtime.GOMAXPROCS(s.cpus + 1)
	}
}

// usableCPUs returns how many CPUs this process may use: those of its affinity, and at most so many
// as the CPU time of its control group is worth.
func usableCPUs() int {
	n := runtime.NumCPU()
	var set unix.CPUSet
	if unix.SchedGetaffinity(os.Getpid(), &set) == nil { // that of the main thread, which taskset -p changes
		n = set.Count()
	}
	if most := grouplimit.CPUs("/"); most > 0 {
		n = min(n, most)
	}
	return n
}

// watchCPUs follows the number of CPUs until s.ctx ends. GOMAXPROCS stops all goroutines for a
// moment, so it is called only if the number has changed.
func (s *server) watchCPUs() {
	if s.cpus == 0 { // useCPUs has not set it
		return
	}
	check := time.NewTicker(cpusEvery)
	defer check.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-check.C:
		}
		if n := usableCPUs(); n != s.cpus {
			s.cpus = n
			runtime.GOMAXPROCS(n + 1)
			s.daemon.CPUsChanged(n)
		}
	}
}
