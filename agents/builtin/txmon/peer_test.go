package txmon

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
)

// buildTxrecord compiles PCP's txrecord with another key: that in its header may be
// in use on this machine.
func buildTxrecord(t *testing.T, key int) string {
	t.Helper()
	const src = "/var/lib/pcp/pmdas/txmon"
	missing := func(err error) {
		t.Helper()
		testutil.Missing(t, fmt.Errorf("cannot build txrecord (run make peers): %w", err))
	}
	header, err := os.ReadFile(filepath.Join(src, "txmon.h"))
	if err != nil {
		missing(err)
	}
	ours := bytes.Replace(header, []byte("0xdeadbeef"), []byte(strconv.Itoa(key)), 1)
	if bytes.Equal(ours, header) {
		t.Fatal("txmon.h has another key")
	}
	code, err := os.ReadFile(filepath.Join(src, "txrecord.c"))
	if err != nil {
		missing(err)
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{"txmon.h": ours, "txrecord.c": code} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("cc", "-w", "-o", "txrecord", "txrecord.c")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Logf("%s", out)
		missing(err)
	}
	return filepath.Join(dir, "txrecord")
}

// PCP's txrecord records transactions and lists the contents of the memory.
func TestPeerTxrecord(t *testing.T) {
	key := freeKey(t)
	txrecord := buildTxrecord(t, key)
	a, err := open(key, Domain, []string{"aa", "bb", "a_very_long_name_of_a_type"})
	if err != nil {
		t.Fatal(err)
	}
	r := &harness{t: t, tr: transport.Inline(a)}
	defer r.tr.Close()
	const nothing = "0 0=0 1=0 2=0, 1 0=-1 1=-1 2=-1, 2 0=-1 1=-1 2=-1, 3 0=0 1=0 2=0"
	const counted = "0 0=2 1=1 2=1, 1 0=2.75 1=2.125 2=3, 2 0=4 1=2.125 2=3, 3 0=2 1=1 2=1"
	const head = "txmon shared memory segment summary\n" +
		"                 tx  reset     total maximum\n" +
		"index offset  count  count      time    time name\n"
	values := []int{itemCount, itemAveTime, itemMaxTime, itemResetCount}
	for _, tt := range []struct {
		args, says string
		status     int
		then       string
	}{
		{"-l", head +
			"    0     32      0      0     0.000  -1.000 aa\n" +
			"    1     96      0      0     0.000  -1.000 bb\n" +
			"    2    160      0      0     0.000  -1.000 a_very_long_name_of\n", 0, nothing},
		{"aa 1.5 bb 2.125 a_very_long_name_of 3 aa 4", "", 0, counted},
		{"cc 1 aa x", `Unknown tx type "cc" ... skipped` + "\n" + `Time value (x) for tx type "aa" is bogus ... skipped` + "\n", 0, counted},
		{"bb", `Missing time for tx type "bb"?` + "\n", 1, counted},
		{"-l", head +
			"    0     32      2      0     5.500   4.000 aa\n" +
			"    1     96      1      0     2.125   2.125 bb\n" +
			"    2    160      1      0     3.000   3.000 a_very_long_name_of\n", 0, counted},
	} {
		out, err := exec.Command(txrecord, strings.Fields(tt.args)...).CombinedOutput()
		status := 0
		if ee, ok := err.(*exec.ExitError); ok {
			status, err = ee.ExitCode(), nil
		}
		if err != nil || status != tt.status || string(out) != tt.says {
			t.Errorf("txrecord %s: %v, status %d, want %d\n got %q\nwant %q", tt.args, err, status, tt.status, out, tt.says)
		}
		if got := r.values(values...); got != tt.then {
			t.Errorf("after txrecord %s:\n got %s\nwant %s", tt.args, got, tt.then)
		}
	}

	for level, says := range map[uint32]string{1: "Warning: stats time collection disabled\n", 0: "Stats collection disabled\n"} {
		if err := r.store(set(id(itemLevel), level)); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(txrecord, "bb", "100").CombinedOutput()
		if (err != nil) != (level == 0) || string(out) != says {
			t.Errorf("level %d: %v, %q, want %q", level, err, out, says)
		}
	}
	if err := r.store(set(id(itemLevel), 2)); err != nil {
		t.Fatal(err)
	}
	// At level 1 one more transaction was counted, without its time.
	const more = "0 0=2 1=2 2=1, 1 0=2.75 1=1.0625 2=3, 2 0=4 1=2.125 2=3, 3 0=2 1=2 2=1"
	if got := r.values(values...); got != more {
		t.Errorf("after all levels:\n got %s\nwant %s", got, more)
	}
}
