package releasetest

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/mmv/mmvtest"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// pminfo of 6.3.8 mixes up what it prints of unknown metrics that it asks for
// together, C pmcd or ours: hence -b 1.

// olderDescriptors are metrics that PCP 6.3.8 describes otherwise than the
// releases that our agents follow.
var olderDescriptors = map[string]bool{
	"pmcd.control.debug": true, "mmv.control.debug": true, "pmproxy.control.debug": true, // names of options since 7.2
	"disk.dm.read_bytes": true, "disk.dm.write_bytes": true, "disk.dm.total_bytes": true, // 64 bits since 7.2
	"disk.md.read_bytes": true, "disk.md.write_bytes": true, "disk.md.total_bytes": true,
}

// TestPeerBuiltIn serves the name space of PCP 6.3.8 with the agents that our pmcd
// has built in: they know all metrics, and describe them as PCP's agents do.
func TestPeerBuiltIn(t *testing.T) {
	t.Parallel()
	c, ours := machines(t, builtIn)
	// What an application writes.
	f := mmvtest.Sample(3)
	f.Flags = 0
	file, _ := f.Append()
	for _, m := range []*peer.Machine{c, ours} {
		run(t, m, "mkdir -p /var/lib/pcp/tmp/mmv && echo "+base64.StdEncoding.EncodeToString(file)+" | base64 -d >/var/lib/pcp/tmp/mmv/app")
	}
	cnames := strings.Fields(run(t, c, "pminfo").Stdout)
	if len(cnames) < 2000 || !slices.Contains(cnames, "mmv.app.int32") {
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
	listed := map[string]bool{}
	for _, n := range strings.Fields(run(t, ours, "pminfo").Stdout) {
		listed[n] = true
	}
	for _, n := range cnames {
		if !listed[n] {
			t.Errorf("%s is not in the list of names", n)
		}
		switch known := strings.Contains(got[n], "Data Type"); {
		case !strings.Contains(want[n], "Data Type"):
			t.Errorf("%s: PCP's agent does not describe it:\n%s", n, want[n])
		case olderDescriptors[n]:
		case !known:
			t.Errorf("%s is unknown:\n%s", n, got[n])
		case got[n] != want[n]:
			t.Errorf("%s: C:\n%s\nours:\n%s", n, want[n], got[n])
		}
	}
	t.Run("values", func(t *testing.T) { compareValues(t, c, ours) })
}

// A valueDifference is a reason for which metrics have values with only one of C's agents
// and ours, or another error.
type valueDifference struct {
	key *regexp.Regexp
	why string
}

// otherValues are the ones that the pages of docs/agents list.
var otherValues = []valueDifference{
	{key(`(cgroup|proc|hotproc)\..*`), "each machine has its processes and control groups"},
	{key(`kvm\..*`), "counters that the kernel does not have are 0 in C, and have no value in ours"},
	{key(`network\.interface\.(speed|baudrate)`), "a speed that the kernel does not know has no value"},
	{key(`mem\.zoneinfo\.nr_free_pages`), "never has values in C"},
	{key(`(mem\.vmmemctl|hyperv\.balloon)\..*`), "0 in C if there is no file of the driver"},
	{key(`tmpfs\..*`), "C has no instances"},
	{key(`pmcd\.client\..*`), "each pmcd numbers its clients"},
}

// compareValues compares which metrics and instances have values, and the errors of metrics
// that have none.
func compareValues(t *testing.T, c, ours *peer.Machine) {
	state := func(m *peer.Machine) map[string]string {
		byName := make(map[string]string)
		for _, r := range peer.Metrics(run(t, m, "pminfo -b 1 -f 2>&1").Stdout) {
			text := strings.Join(r.Lines, "\n")
			if strings.Contains(text, "value ") {
				text = "values" + instancesIn(text)
			}
			byName[r.Key] = strings.TrimSpace(text)
		}
		return byName
	}
	want, got := state(c), state(ours)
	n := 0
	for name, w := range want {
		if strings.HasPrefix(w, "values") && got[name] == w {
			n++
		}
		if got[name] == w || slices.ContainsFunc(otherValues, func(d valueDifference) bool { return d.key.MatchString(name) }) {
			continue
		}
		t.Errorf("%s: C: %s; ours: %s", name, w, got[name])
	}
	if n < 500 {
		t.Errorf("only %d metrics have values", n)
	}
}

// instance matches an instance in what pminfo -f prints.
var instance = regexp.MustCompile(`inst \[\d+ or "(.*)"\] value `)

// instancesIn returns the names of the instances that have values, in the order of names.
func instancesIn(text string) string {
	var names []string
	for _, m := range instance.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	return " of " + strings.Join(names, ", ")
}
