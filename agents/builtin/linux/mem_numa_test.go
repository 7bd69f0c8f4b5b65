package linux

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// A host with nodes 0 and 8, and a CPU without a node.
func TestNodes(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/stat": "cpu  0 0 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 10 20 30 40 50 60 70 80 90 100\n" +
			"cpu2 100 200 300 400\ncpu3 1 x 1 1 1\ncpu4 7 7 7 7 7\n",
		"sys/devices/system/node/node0/cpu0/":    "",
		"sys/devices/system/node/node0/cpu1/":    "",
		"sys/devices/system/node/node8/cpu2/":    "",
		"sys/devices/system/node/node8/cpu3/":    "",
		"sys/devices/system/node/node8/meminfo":  "Node 8 MemTotal: 5 kB\n",
		"sys/devices/system/node/node0/meminfo":  "Node 0 MemTotal: 6 kB\n",
		"sys/devices/system/node/node8/numastat": "local_node 3\n",
	})
	pmdas := t.TempDir()
	t.Setenv("PCP_PMDAS_DIR", pmdas)
	r := newHarness(t, Options{Root: root})
	r.Want(map[string]string{
		"kernel.pernode.cpu.user":       "node0=110 node8=1010",
		"kernel.pernode.cpu.nice":       "node0=220",
		"kernel.pernode.cpu.intr":       "node0=1430 node8=0",
		"kernel.pernode.cpu.wait.total": "node0=550 node8=10",
		"kernel.pernode.cpu.vuser":      "node0=0 node8=1010",
		"mem.numa.util.total":           "node0=6 node8=5",
		"mem.numa.alloc.local_node":     "node8=3",
		"mem.numa.max_bandwidth":        "",
	})
	conf := filepath.Join(pmdas, "linux", "bandwidth.conf")
	for i, tt := range []struct{ text, want string }{
		{"# comment\nVersion:1.0\n\nnode0:1024\nnode8: 12.5\nnode9:1\n", "node0=1024 node8=12.5"},
		{"node0:5\nVersion:1.0\nnode0:x\nnode8:-1\n", ""},
		{"Version:2.0\nnode0:5\n", ""},
	} {
		pmdatest.WriteFile(t, pmdas, "linux/bandwidth.conf", tt.text)
		// The modification time says whether the file has changed.
		if err := os.Chtimes(conf, time.Time{}, time.Unix(int64(1000+i), 0)); err != nil {
			t.Fatal(err)
		}
		if got := r.Values("mem.numa.max_bandwidth"); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
	if err := os.Remove(conf); err != nil {
		t.Fatal(err)
	}
	r.Want(map[string]string{"mem.numa.max_bandwidth": ""})
}

// A node that comes later, such as one with memory only, is found.
func TestNodeLater(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"proc/stat": ""})
	r := newHarness(t, Options{Root: root})
	r.Want(map[string]string{"hinv.nnode": "1", "hinv.node.online": "node0=1"})
	pmdatest.WriteFile(t, root, "sys/devices/system/node/online", "0\n")
	pmdatest.WriteFile(t, root, "sys/devices/system/node/node0/meminfo", "Node 0 MemFree: 5 kB\n")
	r.Want(map[string]string{"hinv.nnode": "1", "mem.numa.util.free": "node0=5"})
	pmdatest.WriteFile(t, root, "sys/devices/system/node/node1/meminfo", "Node 1 MemFree: 6 kB\nNode 1 MemUsed: 18446744073709551612 kB\nNode 1 HugePages_Free: 9007199254740992\n")
	pmdatest.WriteFile(t, root, "proc/meminfo", "Hugepagesize: 2048 kB\n")
	pmdatest.WriteFile(t, root, "sys/devices/system/node/online", "0-1\n")
	r.Want(map[string]string{"hinv.nnode": "2", "mem.numa.util.free": "node0=5 node1=6", "mem.numa.util.used": "",
		"mem.numa.util.hugepagesFreeBytes": "node1=18446744073709551615"})
}
