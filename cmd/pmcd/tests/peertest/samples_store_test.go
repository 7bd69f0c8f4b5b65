package peertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// testStore stores what can be, and what is refused, and looks after each what
// is there.
func (f form) testStore(t *testing.T, p *peer.Pair) {
	for _, c := range []storeCase{
		{"simple.numfetch 7", 0},
		{"simple.numfetch 0", 0},
		{"-F simple.numfetch 2000", 0},
		{"simple.numfetch 2147483647", 0},
		{"simple.numfetch 2147483648", 1},
		{"simple.numfetch 4294967295", 1},
		{"simple.color 3", 0},
		{"simple.color 255", 0},
		{"simple.color 300", 1},
		{"simple.color -3", 1},
		{"-i red simple.color 9", 0},
		{"-i red,blue simple.color 17", 0},
		{"-i blue simple.color 256", 1},
		{"-i green,blue simple.color -1", 1},
		{"-i nosuch simple.color 3", 1},
		{"simple.time.user 3", 1},
		{"simple.time.sys 3", 1},
		{"simple.now 3", 1},
		{"-i sec simple.now 3", 1},
		{"trivial.time 3", 1},

		{"txmon.control.level 9", 0},
		{"txmon.control.level 2147483648", 1},
		{"txmon.control.level 1", 0},
		{"txmon.control.level 4294967295", 1},
		{"txmon.control.level 0", 0},
		{"txmon.control.level 2", 0},
		{"txmon.control.reset 0", 0},
		{"txmon.control.reset 77", 0},
		{"txmon.count 3", 1},
		{"-i aa txmon.count 3", 1},
		{"txmon.ave_time 1.5", 1},
		{"txmon.max_time 1.5", 1},
		{"txmon.reset_count 1", 1},
	} {
		t.Run("pmstore "+c.args, func(t *testing.T) {
			p.Compare(t, peer.TCP4, words("pmstore -h {host} "+c.args), peer.Comparison{Status: c.status})
			p.Compare(t, peer.TCP4, words("pminfo -h {host} -f simple.numfetch simple.color txmon"), f.comparison())
		})
	}
}

// testConf changes simple.conf: instances keep their numbers.
func (f form) testConf(t *testing.T, p *peer.Pair) {
	look := words("pminfo -h {host} -fl simple.now")
	insts := words("pminfo -h {host} -I 253.1")
	exact := f.comparison()
	for i, text := range []string{
		"min\n", "hour,sec\n", "min,sec", "", "sec,,hour\nmin\n", "nosuch\n", "hour,nosuch,min,min\n", " sec,min\n", "sec,min,hour\n",
	} {
		t.Run(fmt.Sprintf("simple.conf %d", i), func(t *testing.T) {
			// A time of its own, however slow the clock of the file system is.
			at := time.Unix(1_000_000_000+int64(i), 0)
			for _, d := range []*peer.Daemon{p.C, p.Ours} {
				conf := filepath.Join(d.Dir, "pmdas/simple/simple.conf")
				if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(conf, at, at); err != nil {
					t.Fatal(err)
				}
			}
			p.Compare(t, peer.TCP4, look, exact)
			p.Compare(t, peer.TCP4, insts, exact)
		})
	}
	t.Run("no simple.conf", func(t *testing.T) {
		for _, d := range []*peer.Daemon{p.C, p.Ours} {
			if err := os.Remove(filepath.Join(d.Dir, "pmdas/simple/simple.conf")); err != nil {
				t.Fatal(err)
			}
		}
		p.Compare(t, peer.TCP4, look, exact)
		p.Compare(t, peer.TCP4, insts, exact)
	})
}

// testTransactions has PCP's programs record transactions. Both agents see them,
// whichever process has made the memory.
func (f form) testTransactions(t *testing.T, p *peer.Pair) {
	txrecord := peer.Must(peer.Built("txrecord"))(t)
	run := func(t *testing.T, c peer.Client, want string) {
		t.Helper()
		o, err := p.Ours.Run(t.Context(), peer.TCP4, c)
		if err != nil {
			t.Fatal(err)
		}
		if o.Code != 0 || !strings.Contains(o.Stdout, want) {
			t.Errorf("%s: want %q\n%s", o.Cmd, want, o)
		}
	}
	look := words("pminfo -h {host} -f txmon")
	t.Run("txrecord", func(t *testing.T) {
		run(t, client(txrecord, "aa", "1.5", "bb", "2.25", "a_very_long_name_of", "3", "aa", "4"), "")
		p.Compare(t, peer.TCP4, look, f.comparison())
		run(t, client(txrecord, "-l"), "    0     32      2      0     5.500   4.000 aa\n"+
			"    1     96      1      0     2.250   2.250 bb\n"+
			"    2    160      1      0     3.000   3.000 a_very_long_name_of\n")
		run(t, words("pminfo -h {host} -f txmon.ave_time"), `inst [0 or "aa"] value 2.75`)
	})
	t.Run("genload", func(t *testing.T) {
		if err := os.Symlink(txrecord, filepath.Join(p.Ours.Dir, "txrecord")); err != nil {
			t.Fatal(err)
		}
		load := client("/var/lib/pcp/pmdas/txmon/genload", "-n", "25", "25", "1")
		load.Env = []string{"PMCD_SOCKET={dir}/sock", "PMCD_PORT={port}"}
		run(t, load, "Mean service time for a_very_long_name_of tx")
		p.Compare(t, peer.TCP4, look, f.comparison())
		o, err := p.Ours.Run(t.Context(), peer.TCP4, words("pmprobe -h {host} -v txmon.count"))
		if err != nil {
			t.Fatal(err)
		}
		var a, b, c int
		if _, err := fmt.Sscanf(o.Stdout, "txmon.count 3 %d %d %d", &a, &b, &c); err != nil || a+b+c != 4+25 {
			t.Errorf("want 29 transactions: %v\n%s", err, o)
		}
	})
}
