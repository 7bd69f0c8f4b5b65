package linux

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/pdu"
)

// allValues returns all values of an agent as text, by the metric and the id of
// the instance.
func allValues(r *pmdatest.Rig) map[string]string {
	r.Helper()
	var res pdu.Result
	if err := agenttest.Do(r.Conduit, agents.Origin{}, &pdu.Fetch{PMIDs: r.IDs()}, &res); err != nil {
		r.Fatal(err)
	}
	names := make(map[pdu.PMID]string)
	for name := range r.Metrics {
		names[r.ID(name)] = name
	}
	all := make(map[string]string)
	for _, set := range res.Sets {
		for _, v := range set.Values {
			all[fmt.Sprintf("%s[%d]", names[set.PMID], v.Inst)] = fmt.Sprint(v.Word, v.Block)
		}
	}
	return all
}

// shared are metrics that are made of several lines or columns, so that they are
// others without one; or of which another line takes the place: the last address
// counts, cpu is that of the only CPU if there is no cpu0, model for model name, and the lines
// of a zone are those of the zone before without its first line.
var shared = regexp.MustCompile(`^(hinv\.(n|cpu\.model)|kernel\.pernode\.cpu|kernel\.percpu\.(cpu|s?irq|intr)|kernel\.all\.(interrupts|softirqs)\.total|` +
	`disk\.(all|wwid)\.|network\.(all|softnet|unix|tcpconn6?|udpconn6?|rawconn6?)\.|network\.interface\.ipv6_|vfs\.locks\.|` +
	`mem\.zoneinfo\.|mem\.vmstat\.(pgsteal|pgscan|pgdemote)|kernel\.all\.(nusers|nroots|nsessions)|ipc\.(shm|sem|msg)\.(tot|rss|swp|used)|nfs\.server\.threads\.)`)

// absentIsZero are metrics of which pmdalinux, and so ours, has 0 or "unknown" if
// there is no line; zero is what that is here.
var (
	absentIsZero = regexp.MustCompile(`^(network\.(ip6|icmp6|udp6|udplite6|sockstat)|nfs[34]?\.(client|server)|rpc\.(client|server)|hinv\.cpu)\.`)
	lastNumber   = regexp.MustCompile(`\s\d+\s*$`)
	zero         = regexp.MustCompile(`^0 (\[(0 )*0?\]|\[117 110 107 110 111 119 110 0\])$`)
)

// A line that is not there or broken costs what it says, and nothing else: what
// other files say stays, and so does what is made of other lines.
func TestDamagedLines(t *testing.T) {
	for _, tree := range []string{"vm", "storage"} {
		t.Run(tree, func(t *testing.T) { testDamagedLines(t, tree) })
	}
}

func testDamagedLines(t *testing.T, tree string) {
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata/"+tree)); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Options{Root: root})
	whole := allValues(r)
	damaged := 0
	// Files of /sys have one line.
	err := filepath.WalkDir(root+"/proc", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		damaged += testDamagedFile(t, r, path, string(text), whole)
		return os.WriteFile(path, text, 0o666)
	})
	if err != nil {
		t.Fatal(err)
	}
	if damaged < 100 {
		t.Errorf("%d lines were damaged", damaged)
	}
}

// testDamagedFile damages up to 30 lines of a file, in several ways.
func testDamagedFile(t *testing.T, r *pmdatest.Rig, path, text string, whole map[string]string) (damaged int) {
	file := filepath.Base(path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	ofFile := make(map[string]bool) // what the file has a part in
	without := allValues(r)
	for key, value := range whole {
		if got, ok := without[key]; !ok || got != value {
			ofFile[key] = true
		}
	}
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	for i := 0; i < len(lines); i += 1 + len(lines)/30 {
		before, behind := strings.Join(lines[:i], ""), strings.Join(lines[i+1:], "")
		garbled := strings.Map(func(c rune) rune {
			if isDigit(byte(c)) {
				return 'x'
			}
			return c
		}, lines[i])
		for how, damage := range map[string]string{
			"gone":      before + behind,
			"garbled":   before + garbled + behind,
			"empty":     before + "\n" + behind,
			"the last":  before,
			"too large": before + lastNumber.ReplaceAllString(lines[i], " 99999999999999999999999\n") + behind,
		} {
			damaged++
			if err := os.WriteFile(path, []byte(damage), 0o666); err != nil {
				t.Fatal(err)
			}
			for key, got := range allValues(r) {
				want, ok := whole[key]
				switch {
				case !ok: // a name is part of the line
				case ofFile[key] && (shared.MatchString(key) || absentIsZero.MatchString(key) && zero.MatchString(got)):
				case got != want:
					t.Errorf("%s: line %q is %s: %s is %q, not %q", file, lines[i], how, key, got, want)
				}
			}
		}
	}
	return damaged
}
