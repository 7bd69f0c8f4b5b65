package linux

import (
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

func TestSoftnet(t *testing.T) {
	const absent = "metric not supported by this version of the application"
	root := pmdatest.Tree(t, map[string]string{"proc/stat": "cpu 3 0 0 0\ncpu0 1 0 0 0\ncpu2 2 0 0 0\n"}) // cpu1 is offline
	r := newHarness(t, Options{Root: root})
	for _, tt := range []struct{ text, processed, percpu, rps, flow, percpuFlow string }{
		{"000000ff 1 2 0 0 0 0 0 3 4 5 6 00000002 0 0\n1 1 2 0 0 0 0 0 3 4 7 6 00000000 0 0\n", "256", "cpu0=1 cpu2=255", "8", "12", "cpu0=7 cpu2=5"},
		{"1 1 2 0 0 0 0 0 3 4 5\n2 1 2 0 0 0 0 0 3 4 6\n", "3", "cpu0=1 cpu2=2", "8", "11", "cpu0=5 cpu2=6"},
		{"1 1 2 0 0 0 0 0 3 4 5 6\n2 1 2 0 0 0 0 0 3 4 6 7\n", "3", "cpu0=1 cpu2=2", "8", "11", "cpu0=5 cpu2=6"},
		{"1 1 2 0 0 0 0 0 3 4\n2 1 2 0 0 0 0 0 3 4\n9 9 9 9 9 9 9 9 9 9\n", "12", "cpu0=1 cpu2=2", "17", absent, absent},
		{"1 1 2 0 0 0 0 0 3\n", "1", "cpu0=1", absent, absent, absent},
		{"1 1 2 0 0 0 0 0 3 4 5 6 ffffffff\n", "1", absent, "4", "5", absent},
		{"1 2 3\n", absent, absent, absent, absent, absent},
		{"1 1 2 0 x 0 0 0 3 4 5 6 0 1 2\n", absent, absent, absent, absent, absent},
		{"", absent, absent, absent, absent, absent},
	} {
		pmdatest.WriteFile(t, root, "proc/net/softnet_stat", tt.text)
		t.Log(tt.text)
		r.Want(map[string]string{
			"network.softnet.processed":               tt.processed,
			"network.softnet.percpu.processed":        tt.percpu,
			"network.softnet.received_rps":            tt.rps,
			"network.softnet.flow_limit_count":        tt.flow,
			"network.softnet.percpu.flow_limit_count": tt.percpuFlow,
		})
	}
}
