package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/internal/linuxhosts"
	"github.com/gopcp/pmcd/pdu"
)

func TestInterrupts(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"proc/stat": "cpu 3 0 0 0\ncpu0 1 0 0 0\ncpu2 2 0 0 0\ncpu3 2 0 0 0\n"})
	r := newHarness(t, Options{Root: root})
	for _, tt := range []struct{ what, text, lines, cells, cpus, errors, missed, labels string }{{
		"CPU 1 is offline",
		"           CPU0       CPU2\n  1:  10 20  IO-APIC   1-edge      i8042\nLOC: 3 4   Local timer interrupts\nERR: 5\nMIS: 6\n",
		"1=30 LOC=7", "1::cpu0=10 1::cpu2=20 LOC::cpu0=3 LOC::cpu2=4", "cpu0=13 cpu2=24", "5", "6", "IO-APIC 1-edge i8042",
	}, {
		"other numbers",
		"           CPU0       CPU2\n  1:  11 20  IO-APIC   1-edge      i8042\nLOC: 3 18446744073709551615   Local timer interrupts\nERR: 6\n",
		"1=31 LOC=2", "1::cpu0=11 1::cpu2=20 LOC::cpu0=3 LOC::cpu2=4294967295", "cpu0=14 cpu2=19", "6", "0", "IO-APIC 1-edge i8042",
	}, {
		"another device, a removed line",
		"           CPU0       CPU2\n  1:  11 20  IO-APIC   1-edge      vda\n",
		"1=31", "1::cpu0=11 1::cpu2=20", "cpu0=11 cpu2=20", "0", "0", "IO-APIC 1-edge vda",
	}, {
		"another CPU, a line with one number, a malformed line, a line twice",
		"     CPU0  CPU2 CPU3\n  1: 1 2 3 x\n  2: 5\nABC: 1 x 3 y\n  1: 9 9 9\nlong_: 7 7 7\n:\n",
		"1=6 2=5 ABC=1 long_=21", "1::cpu0=1 1::cpu2=2 1::cpu3=3 2::cpu0=5 ABC::cpu0=1 long_::cpu0=7 long_::cpu2=7 long_::cpu3=7",
		"cpu0=14 cpu2=9 cpu3=10", "0", "0", "x",
	}, {
		"arm64: a number of ten digits follows the colon at once",
		"           CPU0       CPU2\n  1:          1          2       x\nIPI0:1234567890         12       Rescheduling interrupts\n",
		"1=3 IPI0=1234567902", "1::cpu0=1 1::cpu2=2 IPI0::cpu0=1234567890 IPI0::cpu2=12", "cpu0=1234567891 cpu2=14", "0", "0", "x",
	}, {
		"an empty file", "", "", "", "", "", "", "",
	}} {
		pmdatest.WriteFile(t, root, "proc/interrupts", tt.text)
		pmdatest.WriteFile(t, root, "proc/softirqs", tt.text)
		for range 2 { // the second read only updates numbers
			for name, want := range map[string]string{
				"kernel.all.interrupts.total":  tt.lines,
				"kernel.percpu.interrupts":     tt.cells,
				"kernel.percpu.intr":           tt.cpus,
				"kernel.all.interrupts.errors": tt.errors,
				"kernel.all.interrupts.missed": tt.missed,
				"kernel.all.softirqs.total":    tt.lines,
				"kernel.percpu.sirq":           tt.cpus,
			} {
				got := strings.Fields(r.Values(name))
				if len(got) != len(strings.Fields(want)) {
					t.Errorf("%s: %s is %q, want %q", tt.what, name, got, want)
				}
				for _, w := range strings.Fields(want) {
					if !strings.Contains(" "+strings.Join(got, " ")+" ", " "+w+" ") {
						t.Errorf("%s: %s is %q, without %s", tt.what, name, got, w)
					}
				}
			}
		}
		var labels pdu.Labels
		req := &pdu.LabelReq{Kind: pdu.LabelInstances, Ident: uint32(pdu.NewInDom(60, indomIRQ))}
		if err := r.Do(req, &labels); err != nil {
			t.Fatal(err)
		}
		if text := `"irq":"1","irqtext":"` + tt.labels + `"`; tt.text != "" && !strings.Contains(string(labels.Sets[0].JSON), text) {
			t.Errorf("%s: labels are %s, without %s", tt.what, labels.Sets[0].JSON, text)
		}
	}
}

// The cells of a large host, 67,000 for 256 CPUs, take 245 bytes each. It was 346 when instances
// had their names and ids, too.
func TestMemoryOfInterrupts(t *testing.T) {
	const cpus = 128
	h := newHost(60, Options{Root: pmdatest.Tree(t, linuxhosts.Interrupts(cpus, cpus)), CacheDir: t.TempDir()})
	q := newInterrupts(h, "proc/interrupts", indomIRQ, indomIRQCPU)
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := live()
	if err := q.read(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	after := live()
	cells, _ := q.cells.Size()
	if each := int(after-before) / cells; cells < cpus*cpus || each > 300 {
		t.Errorf("%d cells take %d bytes each", cells, each)
	}
	runtime.KeepAlive(q)
}

// The file of a host that had more CPUs, or other interrupts, is shortened.
func TestInterruptsThatAreGone(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, fmt.Sprint("60.", indomIRQCPU))
	var saved strings.Builder
	saved.WriteString("2 0 2147483647\n")
	for i := range maxInactive + 2 {
		fmt.Fprintf(&saved, "%d 1700000000 LOC::cpu%d\n", i, i)
	}
	if err := os.WriteFile(file, []byte(saved.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	q := newInterrupts(newHost(60, Options{CacheDir: dir}), "proc/interrupts", indomIRQ, indomIRQCPU)
	q.parse([]byte("    CPU7\nLOC: 5 Local\n"))
	if e, err := q.cells.LookupName("LOC::cpu7"); err != nil || e.Inst != 7 {
		t.Errorf("LOC::cpu7: %+v, %v", e, err)
	}
	if b, err := os.ReadFile(file); err != nil || strings.Count(string(b), "\n") != 2 {
		t.Errorf("%d lines in the file, %v, want 2", strings.Count(string(b), "\n"), err)
	}
	// CPUs that go offline while the agent runs keep theirs, however many they are.
	var header strings.Builder
	for i := range maxInactive + 2 {
		fmt.Fprintf(&header, " CPU%d", i)
	}
	all := header.String() + "\nLOC:" + strings.Repeat(" 5", maxInactive+2) + " Local\n"
	for _, text := range []string{all, "    CPU7\nLOC: 5 Local\n", "", all} {
		q.parse([]byte(text))
	}
	if e, err := q.cells.LookupName("LOC::cpu9"); err != nil || e.Inst > maxInactive+20 {
		t.Errorf("LOC::cpu9: %+v, %v: it has another id", e, err)
	}
}
