package peertest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// scripts are what dbpmda is told to ask the agents, which it starts itself.
var scripts = map[string]string{
	"trivial": `
		status
		desc 250.0.0
		desc 250.0.1
		fetch 250.0.1
		instance 250.0
		text 250.0.0
		text 250.0.1
		store 250.0.0 "3"
		label domain
		label item 250.0.0
		name 250.0.0
		pmid trivial.time
		children trivial
		attr "userid" "0"`,
	"simple": `
		status
		desc 253.0.0
		desc 253.0.1
		desc 253.1.2
		desc 253.1.3
		desc 253.2.4
		desc 253.2.5
		fetch 253.0.0 253.0.1
		fetch 253.0.7 253.0.0 253.3.1 253.0.0
		instance 253.0
		instance 253.0 1
		instance 253.0 9
		instance 253.0 "blue"
		instance 253.0 "black"
		instance 253.1
		instance 253.1 2
		instance 253.1 "min"
		instance 253.1 "day"
		instance 253.2
		profile 253.0 none
		fetch 253.0.1
		profile 253.0 add 1
		fetch 253.0.1
		profile 253.0 all
		fetch 253.0.1
		text 253.0.0
		text 253.2.4
		text 253.2.5
		text indom 253.0
		text indom 253.1
		text indom 253.2
		store 253.0.0 "7"
		store 253.0.1 "300"
		fetch 253.0.0 253.0.1
		store 253.0.1 "-2"
		store 253.1.3 "2"
		store 253.2.4 "2"
		fetch 253.0.0 253.0.1
		label domain
		label indom 253.0
		label indom 253.1
		label cluster 253.0
		label item 253.0.0
		label instances 253.0
		label instances 253.1
		profile 253.0 none
		profile 253.0 add 1
		label instances 253.0
		profile 253.0 all
		label instances 253.2
		name 253.0.0
		pmid simple.color
		children simple
		traverse simple
		attr "userid" "0"
		fetch 253.0.0`,
	"txmon": `
		desc 248.0.0
		desc 248.0.1
		desc 248.0.2
		desc 248.0.3
		desc 248.0.4
		desc 248.0.5
		desc 248.0.6
		fetch 248.0.0 248.0.1 248.0.2 248.0.3 248.0.4 248.0.5 248.0.6 248.1.0
		instance 248.0
		instance 248.0 2
		instance 248.0 "bb"
		instance 248.0 "a_very_long_name_of_a_type"
		text 248.0.4
		text indom 248.0
		store 248.0.4 "1"
		fetch 248.0.0 248.0.1 248.0.4
		store 248.0.4 "2"
		store 248.0.5 "2"
		store 248.0.0 "2"
		label domain
		label indom 248.0
		label instances 248.0
		fetch 248.0.0 248.0.1 248.0.2 248.0.3 248.0.4 248.0.5`,
}

// dbpmdaDifferences are the places where our agents differ from PCP's.
var dbpmdaDifferences = []*peer.Difference{
	{Key: re(`label domain`), C: "Info: __pmDecodeLabel() returns 0 label sets",
		Ours: "Labels:\n    agent=\"trivial\"", Why: "as in TestSamples"},
}

var (
	prompt    = regexp.MustCompile(`^dbpmda> (.*)$`)
	addresses = regexp.MustCompile(`dump from 0x[0-9a-f]+|\(pid: [0-9]+\)`)
	oldTime   = regexp.MustCompile(`^(253\.1\.3|253\.2\.4|253\.2\.4\[[^]]*\]): .* -> `)
)

// commands makes what dbpmda says to each command a record.
func commands(text string) []peer.Record {
	var rs []peer.Record
	for l := range strings.Lines(text) {
		l = strings.TrimSuffix(l, "\n")
		if m := prompt.FindStringSubmatch(l); m != nil {
			rs = append(rs, peer.Record{Key: m[1]})
			continue
		}
		if rs == nil {
			rs = append(rs, peer.Record{})
		}
		l = oldTime.ReplaceAllString(addresses.ReplaceAllString(l, "ADDRESS"), "$1: OLD -> ")
		rs[len(rs)-1].Lines = append(rs[len(rs)-1].Lines, l)
	}
	return rs
}

// noText leaves of an answer to the command text that there is one.
func noText(r peer.Record) peer.Record {
	if strings.HasPrefix(r.Key, "text ") && !strings.Contains(strings.Join(r.Lines, "\n"), "Error") && len(r.Lines) > 1 {
		r.Lines = []string{"TEXT"}
	}
	return r
}

// TestSamplesDbpmda has dbpmda ask the agents, PDU by PDU.
func TestSamplesDbpmda(t *testing.T) {
	p := forms[0].pair(t)
	for _, a := range samples {
		t.Run(a.name, func(t *testing.T) {
			lines := map[*peer.Daemon]string{
				p.C:    cLine(t, a.name, a.domain, false),
				p.Ours: goDaemon(t, a.name, a.domain),
			}
			ask := func(d *peer.Daemon) (peer.Output, error) {
				_, args, _ := strings.Cut(lines[d], " binary ")
				path, args, _ := strings.Cut(args, " ")
				o, err := d.Run(t.Context(), peer.TCP4, peer.Client{
					Args:  []string{"dbpmda", "-n", "pmns", "-ie"},
					Env:   []string{"PCP_PMDAS_DIR={dir}/pmdas", "PCP_VAR_DIR={dir}/var"},
					Stdin: "open pipe " + path + " " + args + "\n" + strings.ReplaceAll(scripts[a.name], "\t", "") + "\nquit\n",
				})
				o.Stdout = strings.ReplaceAll(o.Stdout, path, "{agent}")
				o.Stderr = strings.ReplaceAll(o.Stderr, path, "{agent}")
				return o, err
			}
			p.CompareFunc(t, ask, peer.Comparison{Split: commands, Rewrite: noText, Differences: dbpmdaDifferences, Status: peer.AnyStatus})
		})
	}
	if t.Failed() {
		return
	}
	for _, d := range dbpmdaDifferences {
		if !d.Used() {
			t.Errorf("the difference in %v (%s) was not met: remove it", d.Key, d.Why)
		}
	}
}
