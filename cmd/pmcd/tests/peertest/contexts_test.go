package peertest

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// contextNames has the names that chkconnect looks up.
const contextNames = `
root { sample sampledso pmcd }
sample { control 29:0:0 }
sampledso { control 30:0:0 }
pmcd { control }
pmcd.control { debug 2:0:0 }
`

// TestManyContexts runs the program of PCP's QA 017, which opens and duplicates contexts and
// reconnects each of them. The library numbers the contexts of all connections together, so
// pmcd sees few contexts on a connection, but with numbers above its limit of 64 (-C). The
// QA makes 64 contexts, here it is 200 as well.
func TestManyContexts(t *testing.T) {
	peer.Require(t)
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	src := testutil.NeedPeer(t, "/var/lib/pcp/testsuite/src/chkconnect.c")
	program := filepath.Join(t.TempDir(), "chkconnect")
	if out, err := exec.Command("cc", "-w", "-o", program, src, "-lpcp").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const dir = "/var/lib/pcp/pmdas/sample/"
	d := peer.StartT(t, path, peer.Config{PMNS: contextNames, Agents: []string{
		"pmcd 2 dso pmcd_init /none",
		"sample 29 pipe binary " + dir + "pmdasample -d 29",
		"sampledso 30 dso sample_init " + dir + "pmda_sample.so",
	}})
	for _, iterations := range []string{"32", "100"} {
		for _, tr := range []peer.Transport{peer.TCP4, peer.Unix} {
			o, err := d.Run(t.Context(), tr, client(program, "-h", "{host}", "-n", "{dir}/pmns", "-i", iterations))
			if err != nil || o.Code != 0 || o.Stdout != "" || o.Stderr != "" {
				t.Errorf("%v, %s iterations: %v\n%s", tr, iterations, err, o)
			}
		}
	}
}
