package peertest

import (
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// The demonstration agents are compared with PCP's own. They are in four
// forms, and PCP's in two.

// samples are the agents, with their domains.
var samples = []struct {
	name   string
	domain int
}{{"trivial", peer.DomainTrivial}, {"simple", peer.DomainSimple}, {"txmon", peer.DomainTxmon}}

// types are the types of transactions that txmon has. The last is cut.
var types = []string{"aa", "bb", "a_very_long_name_of_a_type"}

// sampleMoving are metrics that change between two looks.
var sampleMoving = []peer.Rule{
	{Key: re(`trivial\.time`), How: peer.Shape, Why: "the clock"},
	{Key: re(`simple\.now`), How: peer.Shape, Why: "the clock"},
	{Key: re(`simple\.time\..*`), How: peer.Presence, Why: "the process's own CPU time, which may be 0 or a fraction"},
}

// sampleDifferences are the places where our agents differ from PCP's.
var sampleDifferences = []*peer.Difference{
	{Key: re(`trivial\.time`), C: `    labels {"deep.a"`, Ours: `    labels {"agent":"trivial","deep.a"`,
		Why: "PCP's is of an interface older than labels, for which pmcd makes up for in its own process only"},
}

// form is a way to have our agents, and PCP's to compare them with.
type form struct {
	name   string
	cPmcd  bool // ours are under PCP's pmcd, too
	dso    bool // those of PCP's that can be are DSOs
	line   func(t *testing.T, name string, domain int) string
	differ []*peer.Difference
}

var forms = []form{
	{name: "daemons", line: goDaemon, differ: sampleDifferences},
	{name: "daemons under C pmcd", line: goDaemon, cPmcd: true, differ: sampleDifferences},
	{name: "plugins", line: goPlugin, dso: true},
	{name: "built in", line: goBuiltin, dso: true},
}

// goDaemon is the line of pmcd.conf for an agent as a program.
func goDaemon(t *testing.T, name string, domain int) string {
	return pipeLine(t, name, domain, peer.Must(peer.PMDA(name))(t))
}

// goPlugin is the line of pmcd.conf for an agent as a Go plugin.
func goPlugin(t *testing.T, name string, domain int) string {
	so := peer.Must(peer.Plugin("pmda_"+name+".so", "./agents/builtin/"+name+"/plugin"))(t)
	return fmt.Sprintf("%s %d dso %s_init %s", name, domain, name, so)
}

// goBuiltin is the line of pmcd.conf for an agent that is compiled into pmcd.
func goBuiltin(_ *testing.T, name string, domain int) string {
	return fmt.Sprintf("%s %d dso %s_init /no/such/pmda_%s.so", name, domain, name, name)
}

func pipeLine(t *testing.T, name string, domain int, path string) string {
	line := fmt.Sprintf("%s %d pipe binary %s -d %d -U %s", name, domain, path, domain, peer.Must(user.Current())(t).Username)
	if name == "txmon" {
		line += " " + strings.Join(types, " ")
	}
	return line
}

// cLine is the line of pmcd.conf for PCP's agent.
func cLine(t *testing.T, name string, domain int, dso bool) string {
	if dso && name != "txmon" {
		return fmt.Sprintf("%s %d dso %s_init %s", name, domain, name, peer.Must(peer.Built("pmda_"+name+".so"))(t))
	}
	return pipeLine(t, name, domain, peer.Must(peer.Built("pmda"+name))(t))
}

// samplesPMNS puts the files that ./Install would use together.
func samplesPMNS(t *testing.T, dir string) string {
	var b strings.Builder
	b.WriteString("root {\n")
	for _, a := range samples {
		b.WriteString("\t" + a.name + "\n")
	}
	b.WriteString("}\n")
	for _, a := range samples {
		text := peer.Must(os.ReadFile(filepath.Join(dir, a.name, "pmns")))(t)
		text = comments.ReplaceAll(text, nil)
		b.WriteString(strings.ReplaceAll(string(text), strings.ToUpper(a.name)+":", fmt.Sprintf("%d:", a.domain)))
	}
	return b.String()
}

var comments = regexp.MustCompile(`(?s)/\*.*?\*/`)

// pair starts PCP's agents under PCP's pmcd and ours under either.
func (f form) pair(t *testing.T) *peer.Pair {
	t.Helper()
	peer.Require(t)
	lockMemory(t)
	path := peer.Must(peer.UnderTest())(t)
	if f.cPmcd {
		path = peer.CPmcd
	}
	files := map[string]string{
		"pmdas/simple/simple.conf": "sec,min,hour\n",
		"pmdas/txmon/txmon.conf":   strings.Join(types, "\n"),
	}
	c := peer.Config{PMNS: samplesPMNS(t, "/var/lib/pcp/pmdas"), Files: files}
	ours := peer.Config{PMNS: samplesPMNS(t, filepath.Join(peer.Must(peer.ModuleRoot())(t), "agents", "builtin")), Files: files}
	for _, a := range samples {
		c.Agents = append(c.Agents, cLine(t, a.name, a.domain, f.dso))
		ours.Agents = append(ours.Agents, f.line(t, a.name, a.domain))
	}
	return &peer.Pair{C: peer.StartT(t, peer.CPmcd, c), Ours: peer.StartT(t, path, ours), Agents: true}
}

// lockMemory waits until no other test has agents with shared memory: its key
// is the same for all of this machine. Both of a pair use one memory, so that
// each sees what the other has made of it.
func lockMemory(t *testing.T) {
	if !peer.Until(5*time.Minute, func() bool {
		l, err := net.Listen("unix", "@pmcd-test-txmon")
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err == nil
	}) {
		t.Fatal("another test has the shared memory of txmon")
	}
}

func (f form) comparison() peer.Comparison {
	return peer.Comparison{Split: peer.Metrics, Rewrite: withoutText, Rules: sampleMoving, Differences: f.differ, Status: peer.AnyStatus}
}

// TestSamples compares the agents in all forms.
func TestSamples(t *testing.T) {
	peer.Require(t)
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			p := f.pair(t)
			f.testInfo(t, p)
			f.testTransactions(t, p)
			f.testStore(t, p)
			f.testConf(t, p)
		})
	}
	if t.Failed() {
		return
	}
	for _, d := range sampleDifferences {
		if !d.Used() {
			t.Errorf("the difference in %v (%s) was not met: remove it", d.Key, d.Why)
		}
	}
}

// testInfo asks for all that can be said.
func (f form) testInfo(t *testing.T, p *peer.Pair) {
	for _, line := range []string{
		"pminfo -h {host} -m",
		"pminfo -h {host} -d",
		"pminfo -h {host} -tT",
		"pminfo -h {host} -l",
		"pminfo -h {host} -f",
		"pminfo -h {host} -dmtTlfF",
		"pminfo -h {host} -tT -I 253.0 253.1 248.0 250.0 253.2 248.1",
		"pminfo -h {host} -f 250.0.1 250.1.0 253.0.7 253.3.0 248.0.6 248.1.0 253.0.0",
		"pminfo -h {host} -d 250.0.1 250.1.0 253.0.7 253.3.0 248.0.6 248.1.0 253.0.0",
		"pminfo -h {host} -f trivial simple txmon simple.nosuch txmon.control",
	} {
		t.Run(line, func(t *testing.T) {
			for _, tr := range []peer.Transport{peer.TCP4, peer.Unix} {
				p.Compare(t, tr, words(line), f.comparison())
			}
		})
	}
	probe := f.comparison()
	probe.Split = peer.Lines
	for _, opts := range []string{"-v", "-i", "-I", "-f"} {
		t.Run("pmprobe "+opts, func(t *testing.T) {
			p.Compare(t, peer.TCP4, words("pmprobe -h {host} "+opts), probe)
		})
	}
	for _, line := range []string{
		"pmval -h {host} -s 2 -t 0.1 trivial.time",
		"pmval -h {host} -s 3 -t 20msec simple.numfetch",
		"pmval -h {host} -s 3 -t 20msec simple.color",
		"pmval -h {host} -s 3 -t 20msec -i green simple.color",
		"pmval -h {host} -s 3 -t 20msec -i red,nosuch simple.color",
		"pmval -h {host} -s 3 -t 20msec simple.time.sys",
		"pmval -h {host} -s 2 -t 20msec -i hour,min simple.now",
		"pmval -h {host} -s 2 -t 20msec txmon.ave_time",
		"pmval -h {host} -s 2 -t 20msec -r txmon.count",
	} {
		t.Run(line, func(t *testing.T) {
			cmp := peer.Comparison{Status: peer.AnyStatus}
			if !strings.Contains(line, "color") && !strings.Contains(line, "numfetch") {
				cmp.Default = peer.Shape
			}
			p.Compare(t, peer.TCP4, words(line), cmp)
		})
	}
}
