package peertest

import (
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/linuxhosts"
)

// pminfoCounts prints a line for each metric: how many instances have a value, and the error
// if there is one.
const pminfoCounts = `pminfo -h '{host}' -f | awk '
	function flush() { if (name != "") print name, n + 0, error }
	/^[a-z]/ { flush(); name = $1; n = 0; error = "" }
	/^    (inst|value)/ { n++ }
	/^Error|^    Error|Error: / { error = $0 }
	END { flush() }'`

// On a host with 128 CPUs and 10,000 processes pminfo gets all values: no request meets a
// limit.
func TestLargeHost(t *testing.T) {
	peer.Require(t)
	const processes = 10_000
	k := linuxhosts.Linux6_12
	root := pmdatest.Tree(t, linuxhosts.Join(linuxhosts.Processes(k, 2), linuxhosts.ManyProcesses(k, 2, processes),
		linuxhosts.NUMA(4, 128), linuxhosts.Interrupts(128, 128)))
	path, err := peer.Plain("pmcd", "./cmd/pmcd") // the race detector makes it ten times slower
	if err != nil {
		t.Fatal(err)
	}
	d := peer.StartT(t, path, peer.Config{Embedded: true, Env: []string{
		"LINUX_STATSPATH=" + root, "PROC_STATSPATH=" + root, "PROC_ACCESS=1",
		// Not the debugfs of this machine, whose kernel may be locked down.
		"PCP_PMDAS_DIR=" + root, "KVM_DEBUGFS_PATH=" + root,
	}})
	cl := client("/bin/sh", "-c", pminfoCounts)
	cl.Env = []string{"PCP_DERIVED_CONFIG="}
	o, err := d.Run(t.Context(), peer.Unix, cl)
	if err != nil || o.Stderr != "" || o.Code != 0 {
		t.Fatalf("%v\n%s", err, o)
	}
	counts := make(map[string]string)
	for line := range strings.Lines(o.Stdout) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, failure, _ := strings.Cut(rest, " ")
		counts[name] = n
		// As on other hosts, the kernel of the tree lacks some metrics.
		if failure != "" && !strings.Contains(failure, "Metric not supported by this version of monitored application") {
			t.Errorf("%s: %s", name, failure)
		}
	}
	for name, want := range map[string]string{
		"kernel.percpu.cpu.user":   "125", // three are offline
		"kernel.percpu.interrupts": "16875",
		"proc.psinfo.pid":          "10010",
		"proc.io.rchar":            "10010",
		"kernel.all.load":          "3",
		"pmcd.numclients":          "1",
		"hinv.ncpu":                "1",
	} {
		if counts[name] != want {
			t.Errorf("%s has %q values, want %s", name, counts[name], want)
		}
	}
	if len(counts) < 1000 {
		t.Errorf("%d metrics", len(counts))
	}
	for line := range strings.Lines(d.Log()) {
		if strings.Contains(line, " Warning: ") || strings.Contains(line, " Error: ") {
			t.Errorf("log: %s", line)
		}
	}
}
