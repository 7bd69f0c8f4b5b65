package linux

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

func TestPhysicalInterfaces(t *testing.T) {
	const dev = "lo:1 1 1 1 0 0 0 0 1 1 1 1 0 0 0 0\nbond0:2 2 2 2 0 0 0 0 2 2 2 2 0 0 0 0\neth0: 10 20 30 40 0 0 0 0 50 60 70 80 0 0 0 0\nbond: 100 200 300 400 0 0 0 0 500 600 700 800 0 0 0 0\nveth7: 1000 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
	root := pmdatest.Tree(t, map[string]string{"proc/net/dev": dev})
	for _, tt := range []struct{ conf, in, total string }{
		{"none", "1110", "1660"},
		{"# lo\n^(lo | # no\n bond[0-9]* |\n\tveth[0-9]+)$\n", "10", "60"},
		{"eth0", "1103", "1606"},
		{"\n# nothing\n", "1110", "1660"},
		{"(", "1110", "1660"},
	} {
		dir := t.TempDir()
		if tt.conf != "none" {
			pmdatest.WriteFile(t, dir, "linux/interfaces.conf", tt.conf)
		}
		r := newHarness(t, Options{Root: root, ConfDir: dir})
		r.Want(map[string]string{"network.all.in.bytes": tt.in, "network.all.total.bytes": tt.total})
	}

	// With an interface whose number is malformed, the sum would decrease.
	pmdatest.WriteFile(t, root, "proc/net/dev", dev+"eth1: x 5 0 0 0 0 0 0 7 0 0 0 0 0 0 0\n")
	r := newHarness(t, Options{Root: root})
	r.Want(map[string]string{"network.all.in.bytes": "", "network.all.total.bytes": "", "network.all.in.packets": "225", "network.all.out.bytes": "557"})
	if err := os.Remove(filepath.Join(root, "proc/net/dev")); err != nil {
		t.Fatal(err)
	}
	r.Want(map[string]string{"network.all.in.bytes": "0"})
}
