package releasetest

import (
	"os"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

func TestMain(m *testing.M) {
	code := m.Run()
	peer.Finish()
	os.Exit(code)
}

// builtIn has our pmcd use the agents that it has built in, in place of PCP's.
const builtIn = `cd /var/lib/pcp/pmdas && rm linux/pmda* proc/pmda* xfs/pmda* kvm/pmda* jbd2/pmda* &&
sed -Ei 's,^(linux|proc|xfs|kvm)[[:space:]]+([0-9]+)[[:space:]].*,\1 \2 dso \1_init /var/lib/pcp/pmdas/\1/pmda_\1.so,' /etc/pcp/pmcd/pmcd.conf`

// machines are PCP 6.3.8 as it is, and our pmcd in the same installation.
func machines(t *testing.T, before string) (c, ours *peer.Machine) {
	t.Helper()
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	c, ours = peer.BootRelease(t, peer.Trixie, ""), peer.BootRelease(t, peer.Trixie, path)
	if before != "" {
		if o, err := ours.Run(t.Context(), "/", shell(before)); err != nil || o.Code != 0 {
			t.Fatalf("%v %s", err, o)
		}
	}
	c.Start(t)
	ours.Start(t)
	return c, ours
}

func shell(command string) peer.Client { return peer.Client{Args: []string{"sh", "-c", command}} }

// compareAll compares the name space and the metadata.
func compareAll(t *testing.T, c, ours *peer.Machine) {
	check := func(line string, cmp peer.Comparison) {
		t.Run(line, func(t *testing.T) {
			cl := shell(line)
			peer.CompareMachines(t, c, ours, "/", cl, cmp)
		})
	}
	check("pminfo", peer.Comparison{Split: peer.Lines})
	check("pminfo -dmM", pminfo())
	check("pminfo -l | grep -v 'labels {}'", pminfo())
	const some = "$(pminfo | grep -Ev '^(hot)?proc' | cut -d. -f1 | sort -u)"
	for _, opts := range []string{"-tT", "-ls", "-I", "-f"} {
		check("pminfo "+opts+" "+some, pminfo())
	}
	check("pminfo -tT proc hotproc", pminfo())
}

func TestStock(t *testing.T) {
	peer.RequireRelease(t, peer.Trixie)
	t.Run("its agents", func(t *testing.T) {
		t.Parallel()
		c, ours := machines(t, "")
		compareAll(t, c, ours)
	})
	t.Run("built in", func(t *testing.T) {
		t.Parallel()
		c, ours := machines(t, builtIn)
		compareAll(t, c, ours)
		if !strings.Contains(ours.Log(), "built") {
			t.Errorf("no built-in agent in the log:\n%s", ours.Log())
		}
	})
}

func pminfo() peer.Comparison {
	return peer.Comparison{Split: peer.Metrics, Status: peer.AnyStatus}
}
