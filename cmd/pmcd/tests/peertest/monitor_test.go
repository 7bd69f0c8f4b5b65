package peertest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// TestPmrep reports in several forms.
func TestPmrep(t *testing.T) {
	const constant = " sample.long.hundred sample.bin sample.string.hullo sample.float.ten sample.ulonglong.million,,,,"
	const moving = " kernel.all.load kernel.all.cpu.user mem.util.free disk.all.total network.interface.in.bytes"
	for _, c := range []struct {
		args  string
		shape bool
	}{
		{"-s 3 -t 50msec" + constant, false},
		{"-o csv -s 3 -t 50msec" + constant, true}, // with time stamps
		{"-i bin-100,bin-900 -s 2 -t 50msec sample.bin", false},
		{"-x -E 2 -s 3 -t 50msec" + constant, true},
		{"-s 3 -t 50msec -r" + moving, true},
		{"-s 3 -t 50msec" + moving, true},
		{"-s 2 -t 50msec :vmstat", true},
		{"-s 2 -t 50msec :sar-u-ALL", true},
		{"-u -s 2 -t 50msec sample.secret.foo.one no.such.metric", false},
	} {
		t.Run(c.args, func(t *testing.T) {
			cmp := peer.Comparison{Status: peer.AnyStatus, Differences: differences}
			if c.shape {
				cmp.Default = peer.Shape
			}
			compare(t, words("pmrep -h {host} "+c.args), cmp)
		})
	}
}

// distinct makes a record of each different line, dates apart: how often pmie
// evaluates in a given time is a matter of chance.
func distinct(text string) []peer.Record {
	lines := strings.Split(datePattern.ReplaceAllString(text, "DATE"), "\n")
	slices.Sort(lines)
	var rs []peer.Record
	for _, l := range slices.Compact(lines) {
		rs = append(rs, peer.Record{Key: l, Lines: []string{l}})
	}
	return rs
}

const pmieRules = `
delta = 0.1 sec;
hundred = sample.long.hundred * 2;
two = sample.bin #'bin-100' #'bin-300';
some_inst sample.bin > 850 -> print "big %i=%v on %h";
all_inst sample.bin > 50 -> print "all";
count_inst sample.long.bin > 450;
sample.string.hullo == "hullo world!" -> print "hullo";
kernel.all.load #'1 minute' < 0 -> print "cannot be";
hinv.ncpu >= 1 -> print "has a CPU";
nosuch = no.such.metric > 1;
noagent = kvm.exits > 1;
noinst = sample.bin #'bin-950';
slope = rate sample.long.bin_ctr #'bin-100';
`

// pmieLate is what pmie writes when it is a second late.
const pmieLate = "negative delay"

func TestPmie(t *testing.T) {
	cmp := peer.Comparison{Split: distinct, Differences: differences, Void: pmieLate}
	for _, args := range []string{"-v -T 500msec", "-V -f -T 500msec", "-C -v", "-f -e -v -T 500msec"} {
		t.Run(args, func(t *testing.T) {
			cl := words("pmie -h {host} " + args)
			cl.Stdin = pmieRules
			cmp := cmp
			cmp.Status = peer.AnyStatus
			compare(t, cl, cmp)
		})
	}
}

// TestPcp runs the reports that administrators look at first.
func TestPcp(t *testing.T) {
	for _, c := range []string{"pcp -h {host}", "pcp -h {host} summary"} {
		t.Run(c, func(t *testing.T) {
			compare(t, words(c), peer.Comparison{Split: summary, Differences: differences})
		})
	}
	for _, args := range []string{
		"free",
		"free -m -t",
		"vmstat 0.1 3",
		"-t 0.1 -s 3 mpstat",
		"-t 0.1 -s 3 mpstat -P ALL",
		"-t 0.1 -s 3 iostat",
		"-t 0.1 -s 3 iostat -x t",
		"uptime",
		"-t 0.1 -s 2 numastat",
	} {
		t.Run(args, func(t *testing.T) {
			compare(t, words("pcp -h {host} "+args), peer.Comparison{Default: peer.Shape, Differences: differences})
		})
	}
	t.Run("pmstat", func(t *testing.T) {
		compare(t, words("pmstat -h {host} -s 3 -t 0.1"), peer.Comparison{Default: peer.Shape})
	})
}

// summary is what pcp prints, but for the build of the daemon.
func summary(text string) []peer.Record {
	rs := peer.Whole(regexp.MustCompile(`(Version [0-9.]+)-[^,]+,`).ReplaceAllString(text, "$1-BUILD,"))
	rs[0].Key = "pcp"
	return rs
}

// TestContainer names a container that does not exist. This shows that the name reaches
// the daemon and its agents, in both ways to give it.
func TestContainer(t *testing.T) {
	const names = "pmcd.client.container pmcd.hostname hinv.ncpu mem.physmem sample.long.one network.interface.in.bytes"
	for _, args := range []string{
		"-h {host}?container=nobody -f " + names,
		"-h {host} --container=nobody -f " + names,
		"-h {host}?container=nobody -l hinv.ncpu sample.long.one",
		"-h {host}?container=nobody containers",
	} {
		t.Run(args, func(t *testing.T) {
			// The separator of attributes is ? at the end of any form.
			compare(t, words("pminfo "+args), pminfo())
		})
	}
}

// TestPython is a program that uses the API, with profiles.
func TestPython(t *testing.T) {
	script, err := filepath.Abs("testdata/pmapi.py")
	if err != nil {
		t.Fatal(err)
	}
	cmp := peer.Comparison{Split: byColon, Rules: moving, Differences: differences}
	compare(t, client("/usr/bin/python3", script, "{host}"), cmp)
}

// byColon makes a record of each line, named by what is before the colon.
func byColon(text string) []peer.Record {
	var rs []peer.Record
	for l := range strings.Lines(text) {
		key, _, _ := strings.Cut(l, ":")
		rs = append(rs, peer.Record{Key: key, Lines: []string{l}})
	}
	return rs
}
