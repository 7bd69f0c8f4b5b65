package releasetest

import (
	"os"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// pminfo of 6.3.8 mixes up what it prints of unknown metrics that it asks for
// together, C pmcd or ours: hence -b 1.

// olderDescriptors are metrics that PCP 6.3.8 describes otherwise than the
// releases that our agents follow.
var olderDescriptors = map[string]bool{
	"pmcd.control.debug": true,                                                           // names of options since 7.2
	"disk.dm.read_bytes": true, "disk.dm.write_bytes": true, "disk.dm.total_bytes": true, // 64 bits since 7.2
	"disk.md.read_bytes": true, "disk.md.write_bytes": true, "disk.md.total_bytes": true,
}

// TestPeerBuiltIn serves the name space of PCP 6.3.8 with the agents that our pmcd
// has built in: what they know is described as PCP's agents describe it. What
// they do not know is in testdata/unknown.txt, and costs no other metric.
func TestPeerBuiltIn(t *testing.T) {
	t.Parallel()
	c, ours := machines(t, builtIn)
	cnames := strings.Fields(run(t, c, "pminfo").Stdout)
	if len(cnames) < 2000 {
		t.Fatalf("only %d names", len(cnames))
	}
	describe := func(m *peer.Machine) map[string]string {
		o := run(t, m, "pminfo -b 1 -dm "+strings.Join(cnames, " ")+" 2>/dev/null")
		byName := map[string]string{}
		for _, r := range peer.Metrics(o.Stdout) {
			byName[r.Key] = strings.TrimSpace(strings.Join(r.Lines, "\n"))
		}
		return byName
	}
	want, got := describe(c), describe(ours)
	text, err := os.ReadFile("testdata/unknown.txt")
	if err != nil {
		t.Fatal(err)
	}
	unknown := map[string]bool{}
	for l := range strings.Lines(string(text)) {
		if l = strings.TrimSpace(l); l != "" && l[0] != '#' {
			unknown[l] = true
		}
	}
	listed := map[string]bool{}
	for _, n := range strings.Fields(run(t, ours, "pminfo").Stdout) {
		listed[n] = true
	}
	for _, n := range cnames {
		if !listed[n] && !unknown[n] {
			t.Errorf("%s is not in the list of names", n)
		}
		switch known := strings.Contains(got[n], "Data Type"); {
		case !strings.Contains(want[n], "Data Type"):
			t.Errorf("%s: PCP's agent does not describe it:\n%s", n, want[n])
		case olderDescriptors[n]:
		case !known && !unknown[n]:
			t.Errorf("%s is unknown:\n%s", n, got[n])
		case known && got[n] != want[n]:
			t.Errorf("%s: C:\n%s\nours:\n%s", n, want[n], got[n])
		}
	}
}
