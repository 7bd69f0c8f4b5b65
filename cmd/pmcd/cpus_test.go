package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
)

// The Go runtime has one thread more than there are CPUs that pmcd may use, or as many as GOMAXPROCS
// says.
func TestUseCPUs(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	cpus := usableCPUs()
	if cpus < 1 || cpus > runtime.NumCPU() {
		t.Fatalf("%d CPUs of %d", cpus, runtime.NumCPU())
	}
	const before = 77 // as if the runtime had read the environment
	for value, want := range map[string]int{"": cpus + 1, "0": cpus + 1, "-1": cpus + 1, "two": cpus + 1, "4294967297": cpus + 1, "1": before, "08": before} {
		t.Run(value, func(t *testing.T) {
			t.Setenv("GOMAXPROCS", value)
			runtime.GOMAXPROCS(before)
			s := new(server)
			s.useCPUs()
			if got := runtime.GOMAXPROCS(0); got != want || (s.cpus == 0) != (want == before) {
				t.Errorf("got %d threads for %d CPUs, want %d", got, s.cpus, want)
			}
		})
	}
}

// cpuGroup makes a control group. It returns its directory, and a function that limits its CPU time
// to a part of that of one CPU, in percent; 0 is no limit.
func cpuGroup(t *testing.T) (dir string, limit func(percent int)) {
	t.Helper()
	testutil.NeedRoot(t)
	for _, g := range []struct{ mount, file, format, none string }{
		{"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "%d", "-1"},
		{"/sys/fs/cgroup", "cpu.max", "%d 100000", "max"},
	} {
		dir := filepath.Join(g.mount, fmt.Sprintf("pmcd-test-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { os.Remove(dir) })
		file := filepath.Join(dir, g.file)
		if os.WriteFile(file, []byte(g.none), 0o644) == nil {
			return dir, func(percent int) {
				text := g.none
				if percent > 0 {
					text = fmt.Sprintf(g.format, percent*1000)
				}
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	testutil.Missing(t, "no control group for CPU time can be made")
	return "", nil
}

// cpusEveryVar is the environment variable that makes pmcd look often how many CPUs it may use.
const cpusEveryVar = "PMCD_TEST_CPUS_EVERY"

// A running pmcd follows the limit of its control group and its CPU affinity.
func TestChangeCPUs(t *testing.T) {
	group, limit := cpuGroup(t)
	all := usableCPUs()
	if all < 2 {
		testutil.Missing(t, "needs two CPUs")
	}
	s := pmcdtest.NewService(t, "-F")
	s.Cmd.Args = append([]string{"sh", "-c", `echo $$ >"$0"/cgroup.procs && exec "$@"`, group}, s.Cmd.Args...)
	s.Cmd.Env = append(s.Cmd.Env, "GOMAXPROCS=", cpusEveryVar+"=10ms")
	s.Start()
	s.OpenGate()
	s.Greets(s.Path("sock"))
	pid := s.Cmd.Process.Pid
	line := func(cpus int) string {
		return fmt.Sprintf("the number of CPUs that pmcd may use is %d now (CPU affinity, limits of the control group): it computes %d requests, %d TLS handshakes and as many logins at a time\n",
			cpus, cpus+1, max(1, cpus-1))
	}
	follows := func(cpus, times int) {
		t.Helper()
		testutil.Eventually(t, "in the log: "+line(cpus), func() bool { return strings.Count(s.Read("pmcd.log"), line(cpus)) == times })
	}
	limit(50)
	follows(1, 1)
	limit(0)
	follows(all, 1)
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &before); err != nil {
		t.Fatal(err)
	}
	for cpu := range runtime.NumCPU() {
		if before.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	if one.Count() != 1 || unix.SchedSetaffinity(pid, &one) != nil {
		testutil.Missing(t, "the CPU affinity cannot be changed")
	}
	follows(1, 2)
}
