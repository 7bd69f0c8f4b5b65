package linux

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/pdu"
)

// A valueID identifies a value by the PMID and the id of the instance.
type valueID struct {
	pmid pdu.PMID
	inst int32
}

// valuesOf returns all values of some metrics of an agent as text.
func valuesOf(r *pmdatest.Harness, pmids []pdu.PMID) map[valueID]string {
	r.Helper()
	var res pdu.Result
	if err := r.Do(&pdu.Fetch{PMIDs: pmids}, &res); err != nil {
		r.Fatal(err)
	}
	all := make(map[valueID]string)
	for _, set := range res.Sets {
		for _, v := range set.Values {
			all[valueID{set.PMID, v.Inst}] = fmt.Sprint(v.Word, v.Block)
		}
	}
	return all
}

// derived are metrics that depend on several lines or columns. Without one of them
// they have another value. It may also be that another line takes its place: the
// last address of an interface counts, the line cpu is used if there is no cpu0,
// model is used for model name, and without the first line of a zone its lines
// belong to the zone before.
var derived = regexp.MustCompile(`^(hinv\.(n|cpu\.model)|kernel\.pernode\.cpu|kernel\.percpu\.(cpu|s?irq|intr)|kernel\.all\.(interrupts|softirqs)\.total|` +
	`disk\.(all|wwid)\.|network\.(all|softnet|unix|tcpconn6?|udpconn6?|rawconn6?)\.|network\.interface\.ipv6_|vfs\.locks\.|` +
	`mem\.zoneinfo\.|mem\.vmstat\.(pgsteal|pgscan|pgdemote)|kernel\.all\.(nusers|nroots|nsessions)|ipc\.(shm|sem|msg)\.(tot|rss|swp|used)|nfs\.server\.threads\.)`)

// absentIsZero are metrics that are 0 or "unknown" if the line is missing, as in
// pmdalinux. zero matches these values.
var (
	absentIsZero = regexp.MustCompile(`^(network\.(ip6|icmp6|udp6|udplite6|sockstat)|nfs[34]?\.(client|server)|rpc\.(client|server)|hinv\.cpu)\.`)
	lastNumber   = regexp.MustCompile(`\s\d+\s*$`)
	zero         = regexp.MustCompile(`^0 (\[(0 )*0?\]|\[117 110 107 110 111 119 110 0\])$`)
)

// A line that is missing or malformed affects only the values that come from it.
// Values from other files and other lines do not change.
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
	d := damager{Harness: newHarness(t, Options{Root: root}), names: make(map[pdu.PMID]string)}
	for name := range d.Metrics {
		d.names[d.ID(name)] = name
	}
	d.undamaged = valuesOf(d.Harness, d.IDs())
	// Files of /sys have one line, and are not damaged.
	err := filepath.WalkDir(root+"/proc", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		d.file(path, string(text))
		return os.WriteFile(path, text, 0o666)
	})
	if err != nil {
		t.Fatal(err)
	}
	if d.lines < 100 {
		t.Errorf("%d lines were damaged", d.lines)
	}
}

// A damager damages the files of a tree, one after the other.
type damager struct {
	*pmdatest.Harness
	names     map[pdu.PMID]string
	undamaged map[valueID]string // values of the undamaged files
	lines     int                // that were damaged
}

// file damages up to 30 lines of a file, each in several ways.
func (d *damager) file(path, text string) {
	if err := os.Remove(path); err != nil {
		d.Fatal(err)
	}
	fromFile := make(map[valueID]bool) // values that the file contributes to
	var pmids []pdu.PMID
	without := valuesOf(d.Harness, d.IDs())
	for key, want := range d.undamaged {
		if got, ok := without[key]; !ok || got != want {
			fromFile[key] = true
			if !slices.Contains(pmids, key.pmid) {
				pmids = append(pmids, key.pmid)
			}
		}
	}
	try := func(text, what string, pmids []pdu.PMID, others bool) {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			d.Fatal(err)
		}
		for key, got := range valuesOf(d.Harness, pmids) {
			want, ok := d.undamaged[key]
			name := d.names[key.pmid]
			switch {
			case !ok: // a new instance: its name is part of the line
			case fromFile[key] && (others || derived.MatchString(name) || absentIsZero.MatchString(name) && zero.MatchString(got)):
			case got != want:
				d.Errorf("%s: %s: %s[%d] is %q, not %q", filepath.Base(path), what, name, key.inst, got, want)
			}
		}
	}
	// The metrics of other files do not depend on this file.
	try(garbled(text), "garbled", d.IDs(), true)
	if len(pmids) == 0 {
		return
	}
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	for i := 0; i < len(lines); i += 1 + len(lines)/30 {
		before, behind := strings.Join(lines[:i], ""), strings.Join(lines[i+1:], "")
		for how, damage := range map[string]string{
			"gone":      before + behind,
			"garbled":   before + garbled(lines[i]) + behind,
			"empty":     before + "\n" + behind,
			"the last":  before,
			"too large": before + lastNumber.ReplaceAllString(lines[i], " 99999999999999999999999\n") + behind,
		} {
			d.lines++
			try(damage, fmt.Sprintf("line %q is %s", lines[i], how), pmids, false)
		}
	}
}

// garbled returns text without digits.
func garbled(text string) string {
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return 'x'
		}
		return c
	}, text)
}

// A malformed word leaves only its own metrics without values, and a missing line
// only the metrics of the line.
func TestBrokenLines(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/loadavg": "0.50 x 1e400 1/2 3\n",
		"proc/stat":    "cpu  10 x 30 40 50 60 70 80 90 100\ncpu0 1 2\ncpuX 1 2 3\ncpu2\ncpu3 7 18446744073709551616 9 10\ncpu3 8 8 8 8\nintr 5\ncpu9 1 2 3 4\n",
		"proc/meminfo": "MemTotal: 100 kB\nMemFree 5 kB\nCached: x kB\nBuffers:\nDirty: 18446744073709551615 kB\n: 7\nHugePages_Total: 3\nWriteback:9",
		"proc/diskstats": "   8 0 sda 1 2 3 4 5 x 7 8 9 10 11\n" + // before Linux 4.18
			"   8 16 sdb 1 2 3\n" +
			"   8 x sdc 1 2 3 4 5 6 7 8 9 10 11\n" +
			"   8 32 sdd 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n" + // before 5.5
			"   8\n\n   8 0 sda 9 9 9\n",
		"proc/partitions": "major minor  #blocks  name\n\n   8        0      70 sda\n   8        1      71 sda1\n 8 16 x sdb\n 8 32\n 8 48 0 sdd\n",
		"proc/net/dev":    "Inter-| x\n face | y\n  lo:1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n eth0: 1 2 x 4\n noline\n:1\n../x: 1\n lo: 5\n",
	})
	r := newHarness(t, Options{Root: root})
	r.Want(map[string]string{
		"kernel.all.load":              "1_minute=0.5",
		"kernel.all.cpu.user":          "100",
		"kernel.all.cpu.nice":          "",
		"kernel.all.cpu.vnice":         "",
		"kernel.all.cpu.vuser":         "0", // guest is ahead of user
		"kernel.all.cpu.intr":          "1300",
		"kernel.all.cpu.guest_nice":    "1000",
		"kernel.percpu.cpu.user":       "cpu0=10 cpu3=70",
		"kernel.percpu.cpu.nice":       "cpu0=20",
		"kernel.percpu.cpu.sys":        "cpu3=90",
		"kernel.percpu.cpu.steal":      "cpu0=0 cpu3=0",
		"hinv.ncpu":                    "2",
		"mem.physmem":                  "100",
		"mem.util.free":                "",
		"mem.util.used":                "",
		"mem.util.cached":              "",
		"mem.util.bufmem":              "",
		"mem.util.other":               "",
		"mem.util.dirty":               "",
		"mem.util.writeback":           "9",
		"mem.util.hugepagesTotal":      "3",
		"mem.util.hugepagesTotalBytes": "",
		"disk.dev.read":                "sda=1 sdb=1 sdd=1",
		"disk.dev.write":               "sda=5 sdd=5",
		"disk.dev.write_merge":         "sdd=6",
		"disk.dev.discard_bytes":       "sda=0 sdb=0 sdd=7",
		"disk.dev.flush":               "sda=0 sdb=0 sdd=0",
		"disk.dev.capacity":            "sda=70",
		"disk.dev.scheduler":           "sda=unknown sdb=unknown sdd=unknown",
		"hinv.ndisk":                   "3",
		"network.interface.in.bytes":   "lo=1 eth0=1 ../x=1",
		"network.interface.in.errors":  "lo=3",
		"network.interface.in.drops":   "lo=4 eth0=4",
		"network.interface.out.bytes":  "lo=9",
		"network.interface.mtu":        "",
		"hinv.ninterface":              "3",
	})
}
