package reload

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// A pair is PCP's pmcd and ours, and what has been read of their logs.
type pair struct {
	t       *testing.T
	daemons [2]*peer.Daemon // PCP's first
	clients [2]*conn
	stop    [2]func()
	read    [2]int
	agents  []string
}

const rules = "[access]\ndisallow 127.0.0.2 : all;\n"

var (
	simpleID = pdu.NewPMID(253, 0, 0)
	sampleID = pdu.NewPMID(29, 0, 6)
)

func startPair(t *testing.T, args ...string) *pair {
	t.Helper()
	peer.Require(t)
	ours, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	agents, err := peer.StandardAgents()
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{t: t, agents: agents[:3]} // pmcd, simple, sample
	for i, path := range []string{peer.CPmcd, ours} {
		p.daemons[i], p.stop[i] = start(t, path, peer.Config{
			Agents: p.agents,
			Access: strings.TrimPrefix(rules, "[access]\n"),
			Args:   args,
			// Nothing happens by itself, so that the logs can be compared.
			Env: []string{"PMCD_RESTART_AGENTS=0"},
		})
		p.clients[i] = dial(t, p.daemons[i])
		// What it has not looked at is new to C pmcd at the first reload.
		if _, err := p.clients[i].LabelsAt(t.Context(), pmapi.LabelContext, 0); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// both does something to each.
func (p *pair) both(f func(d *peer.Daemon, c *conn)) {
	p.t.Helper()
	for i, d := range p.daemons {
		f(d, p.clients[i])
	}
}

// hangup makes both reload when no other client is connected any more: another one would be
// in the table of clients.
func (p *pair) hangup(t *testing.T) {
	t.Helper()
	p.alone(t)
	p.both(func(d *peer.Daemon, _ *conn) { hangup(t, d) })
}

func (p *pair) alone(t *testing.T) {
	t.Helper()
	p.both(func(d *peer.Daemon, c *conn) {
		numclients := pdu.NewPMID(2, 0, 3)
		if !peer.Until(peer.Hangs, func() bool { return c.number(numclients) == 1 }) {
			t.Fatalf("%s: there are other clients", d.Path)
		}
	})
}

// same fails the test unless ask has the same answer from both, which is want.
func (p *pair) same(t *testing.T, what, want string, ask func(d *peer.Daemon, c *conn) string) {
	t.Helper()
	for i, d := range p.daemons {
		if got := ask(d, p.clients[i]); got != want {
			t.Errorf("%s: %s: got %s, want %s", what, d.Path, got, want)
		}
	}
}

// logs returns what is new in the logs, normalised, once both have a line that
// matches until.
func (p *pair) logs(until *regexp.Regexp) (c, ours []string) {
	p.t.Helper()
	var new [2][]string
	for i, d := range p.daemons {
		var text string
		if !peer.Until(peer.Hangs, func() bool {
			text = d.Log()[p.read[i]:]
			return until.MatchString(text)
		}) {
			p.t.Fatalf("%s: no %v in the log:\n%s", d.Path, until, text)
		}
		p.read[i] += len(text)
		new[i] = normal(d, text)
	}
	return new[0], new[1]
}

var normals = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`\[\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d\] pmcd\(\d+\)`), "[DATE] pmcd(PID)"},
	{regexp.MustCompile(`\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}`), "DATE"},
	{regexp.MustCompile(`PID = \d+`), "PID = N"},
	{regexp.MustCompile(`from (pid=\d+ uid=\d+|unknown process)`), "from SOMEBODY"},
	{regexp.MustCompile(`fd[= ]\d+`), "fd=N"},
	{regexp.MustCompile(`(terminated|unconfigured), exit\(0\)`), "$1"}, // or it ends later than pmcd waits
	{regexp.MustCompile(` entry=pmcd_init \[0x[0-9a-f]+\]`), " entry=pmcd_init"},
	{regexp.MustCompile(`(?m)^(\S+ +\d+) +\d+ +\d+ +\d+   2 bin`), "$1 PID IN OUT   2 bin"},
	{regexp.MustCompile(`(?m)^  ok +\d+ `), "  ok FD "},
	{regexp.MustCompile(`(?m)^ +\d+(  \{dir\}/sock +\d) *$`), " FD$1"},
	{regexp.MustCompile(`(?m)^agent "\w+": ?`), ""}, // what agents write; C pmcd does not mark it
	{regexp.MustCompile(`(?m)[ \t]+$`), ""},
}

// normal is text without what is another each time, and empty lines. What is
// said about several agents is in the order of their names.
func normal(d *peer.Daemon, text string) []string {
	text = d.Anonymous(peer.TCP4, text)
	for _, n := range normals {
		text = n.re.ReplaceAllString(text, n.to)
	}
	lines := strings.Split(text, "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return l == "" })
	const head = "[DATE] pmcd(PID) Info: CleanupAgent ..."
	// C pmcd does not tell of the agent that is in its process.
	if i := slices.Index(lines, `Cleanup "pmcd" agent (dom 2): terminated`); i > 0 {
		lines = slices.Delete(lines, i-1, i+1)
	}
	for i := 0; i < len(lines); i++ {
		from := i
		for i+1 < len(lines) && lines[i] == head {
			i += 2
		}
		if i > from {
			ends := []string{}
			for j := from + 1; j < i; j += 2 {
				ends = append(ends, lines[j])
			}
			slices.Sort(ends)
			for j, end := range ends {
				lines[from+1+2*j] = end
			}
		}
	}
	return lines
}

// A lineRow is a line that only one of the logs has, and why.
type lineRow struct {
	line *regexp.Regexp
	why  string
	met  bool
}

// without returns lines without those that rows are about.
func without(lines []string, rows []*lineRow) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		for _, r := range rows {
			if r.line.MatchString(l) {
				r.met = true
				return true
			}
		}
		return false
	})
}

func row(line, why string) *lineRow { return &lineRow{line: regexp.MustCompile(line), why: why} }

// onlyC and onlyOurs are lines that one of the two does not have on purpose.
var (
	onlyC = []*lineRow{
		row(`^Warning: (maxpending|restartAgents)=`, "what the environment says, at another time"),
		row(`^pmcd: unexpected end-of-file at initial exchange`, "ours has a line that says more"),
		row(`^\[DATE\] pmcd\(PID\) Error: pmLoadASCIINameSpace\(pmns, 1\): `, "ours names the place, and what is in use"),
		row(`^ParseRestartAgents: stat conf: `, "the words of the system"),
		row(`^\[DATE\] pmcd\(PID\) Error: __pmGetPDU: `, "ours says which client"),
		row(`^\[DATE\] pmcd\(PID\) Error: DoFetch: no profile`, "ours says which client"),
		row(`^Error Parsing ASCII PMNS: Cannot (open|find)`, "ours has the place or the reason"),
		row(`nosuchuser`, "ours is one line"),
	}
	onlyOurs = []*lineRow{
		row(`^Warning: (maxpending|restartAgents)=`, "what the environment says, at another time"),
		row(`^\t(end of its stderr:$|\|)`, "the end of its stderr"),
		row(`\d+ lines? like this w|\(\d+ more like it in .*\)$`, "lines that were left out"),
		row(`^\[DATE\] pmcd\(PID\) Error: cannot start "simple" agent \(dom 253\): .*exited with status 1`, "why"),
		row(`^\[DATE\] pmcd\(PID\) (Warning|Error): agent "simple" \(dom 253\) is down: .*ended by signal 9`, "why"),
		row(`^\[DATE\] pmcd\(PID\) Error: pmLoadASCIINameSpace\(pmns, 1\): pmns:1:8: .*; the names that were loaded before stay in use`, "the place"),
		row(`^\[DATE\] pmcd\(PID\) Error: pmLoadASCIINameSpace\(pmns, 1\): (pmns: )?(End of input|Cannot open).*; the names that were loaded before stay in use`, "the place"),
		row(`^\[DATE\] pmcd\(PID\) (Error|Warning): conf(.access)?:\d+:\d+: `, "the place"),
		row(`^ParseRestartAgents: stat conf: no such file or directory`, "the words of the system"),
		row(`^\[DATE\] pmcd\(PID\) Error: __pmGetPDU: fd=N (type=0x7003 bad PDU len=69632 in hdr exceeds maximum client PDU size \(65536\)|illegal PDU len=4 in hdr); client\[\d\] `, "which client"),
		row(`^\[DATE\] pmcd\(PID\) Error: DoFetch: no profile for ctxnum=0; client\[\d\] `, "which client"),
		row(`^Error Parsing ASCII PMNS: Cannot open .*no such file`, "the reason"),
		row(`^\[pmns:1\] Error Parsing ASCII PMNS: Cannot find`, "the place"),
		row(`^pmcd config\[line 5\]: Error: access control error for user 'nosuchuser'`, "one line"),
		row(`^\[DATE\] pmcd\(PID\) Warning: labels: .*30broken`, "C pmcd says nothing of it"),
	}
)

// compareLogs compares what is new in the logs.
func (p *pair) compareLogs(t *testing.T, until string) {
	t.Helper()
	cAll, oursAll := p.logs(regexp.MustCompile(until))
	c, ours := without(cAll, onlyC), without(oursAll, onlyOurs)
	if !slices.Equal(c, ours) {
		t.Errorf("PCP's pmcd:\n%s\n--- ours:\n%s", strings.Join(c, "\n"), strings.Join(ours, "\n"))
	}
}

// notInForce are steps that find a file which was rejected before, or the one before
// that again: C pmcd remembers the file that it has rejected, ours the one in force.
// So one says that it is unchanged, and the other reads it.
var notInForce = map[string]bool{"HUP, the bad file again": true, "HUP, no .access": true}

// reloaded is the last line of a reload.
const reloaded = `(?m)(PMNS file "pmns" is unchanged|Reloading PMNS "pmns")\n(Err|.*pmLoad|$)`

// TestPeerSession does the same to both daemons, a step at a time, and compares
// what is served after it and what is in the log.
func TestPeerSession(t *testing.T) {
	p := startPair(t)
	lines := func(l ...string) string { return strings.Join(l, "\n") + "\n" }
	all := lines(p.agents...)
	another := p.agents[1] + " -l other.log"
	fails := strings.Replace(p.agents[1], " -d ", " -x ", 1)
	pmns, err := os.ReadFile(filepath.Join(p.daemons[0].Dir, "pmns"))
	if err != nil {
		t.Fatal(err)
	}
	remove := func(name string) func() {
		return func() {
			p.both(func(d *peer.Daemon, _ *conn) {
				if err := os.Remove(filepath.Join(d.Dir, name)); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
	put := func(name, text string) func() {
		return func() { p.both(func(d *peer.Daemon, _ *conn) { write(t, d, name, text) }) }
	}
	nothing := func() {}

	t.Run("start", func(t *testing.T) { p.compareLogs(t, `INADDR_ANY\n.*INADDR_ANY`) })
	t.Run("refused client", func(t *testing.T) {
		p.both(func(d *peer.Daemon, _ *conn) {
			for range 2 { // the second is not in the log
				ended(dialRaw(t, d, "127.0.0.2"))
			}
		})
		peer.Until(peer.Hangs, func() bool { return strings.Contains(p.daemons[0].Log(), "endclient") })
		c, ours := p.logs(regexp.MustCompile("access violation"))
		for _, log := range [][]string{c, ours} {
			if n := strings.Count(strings.Join(log, "\n"), "access violation from host 127.0.0.2"); n != 1 {
				t.Errorf("%d times in %q", n, log)
			}
		}
	})
	const (
		both     = "0 [0 values]" // digits are replaced by 0
		no       = "PM_ERR_NOAGENT"
		name     = "253.0.0"
		notfound = "PM_ERR_NAME"
	)
	for _, s := range []struct {
		name    string
		do      func()
		values  string // of simple and sample
		changes string // of state, and of pmcd.seqnum
		names   string
	}{
		{"HUP, nothing has changed", nothing, both, "0 +0", name},
		{"HUP, an agent is dead", func() { p.kill("pmdasimple") }, both, "3 +2", name},
		{"HUP, another command", put("conf", lines(p.agents[0], another, p.agents[2])+rules), both, "5 +1", name},
		{"HUP, another name of an agent", put("conf", lines(p.agents[0], "simpler"+strings.TrimPrefix(another, "simple"), p.agents[2])+rules), both, "0 +0", name},
		{"HUP, an agent less", put("conf", lines(p.agents[0], another)+rules), "0 " + no, "4 +0", name},
		{"HUP, an agent that fails", put("conf", lines(p.agents[0], fails)+rules), no + " " + no, "4 +0", name},
		{"HUP, the same again", nothing, no + " " + no, "2 +1", name},
		{"HUP, as at first", put("conf", all+rules), both, "1 +2", name},
		{"HUP, the last line is bad", put("conf", lines(p.agents[0], p.agents[1], "foo 12 pipe nonsense")+rules), both, "0 +0", name},
		{"HUP, the bad file again", nothing, both, "0 +0", name},
		{"HUP, another line is bad", put("conf", lines(p.agents[0], "foo 12 pipe nonsense", p.agents[1], p.agents[2])+rules), both, "0 +0", name},
		{"HUP, bad quote", put("conf", all+"\"foo 12\n"), both, "0 +0", name},
		{"HUP, clash of domains", put("conf", all+lines("foo 29 dso f /f")), both, "0 +0", name},
		{"HUP, bad rules", put("conf", all+"[access]\nallow *: frobnicate;\n"), both, "0 +0", name},
		{"HUP, no rules", put("conf", all+"[access]\n"), both, "0 +0", name},
		{"HUP, unknown user", put("conf", all+"[access]\nallow users nosuchuser : all;\n"), both, "0 +0", name},
		{"HUP, no agents", put("conf", "# none\n"), both, "0 +0", name},
		{"HUP, no file", remove("conf"), both, "0 +0", name},
		{"HUP, a file again", put("conf", all+rules), both, "0 +0", name},
		{"HUP, bad .access", put("conf.access", "allow *: frobnicate;\n"), both, "0 +0", name},
		{"HUP, empty .access", put("conf.access", ""), both, "0 +0", name},
		{"HUP, no .access", remove("conf.access"), both, "0 +0", name},
		{"HUP, names", put("pmns", strings.Replace(string(pmns), "numfetch", "fetches", 1)), both, "0 +0", notfound},
		{"HUP, the same names", put("pmns", string(pmns)), both, "0 +0", name},
	} {
		t.Run(s.name, func(t *testing.T) {
			var before [2]int
			for i, c := range p.clients {
				before[i] = c.number(seqnum)
			}
			s.do()
			p.hangup(t)
			if notInForce[s.name] {
				p.logs(regexp.MustCompile(reloaded))
			} else {
				p.compareLogs(t, reloaded)
			}
			for i, c := range p.clients {
				values, changes := c.fetch(simpleID, sampleID)
				more := c.number(seqnum) - before[i]
				values = regexp.MustCompile(`\d+`).ReplaceAllString(values, "0") // it counts fetches
				if got := fmt.Sprintf("%d +%d", changes, more); values != s.values || got != s.changes {
					t.Errorf("%s: values %s, changes %s; want %s, %s", p.daemons[i].Path, values, got, s.values, s.changes)
				}
				if got := c.lookup("simple.numfetch"); got != s.names {
					t.Errorf("%s: names %s, want %s", p.daemons[i].Path, got, s.names)
				}
			}
		})
	}
	for _, s := range []struct{ name, text string }{
		{"no definition", "root { a b }\n"},
		{"preprocessor", "#ifdef X\nroot { a b }\n"},
		{"no file", ""},
	} {
		t.Run("HUP, bad names: "+s.name, func(t *testing.T) {
			if s.text == "" {
				remove("pmns")()
			} else {
				put("pmns", s.text)()
			}
			p.hangup(t)
			p.compareLogs(t, `Error: pmLoadASCIINameSpace`)
			if got := p.clients[0].lookup("simple.numfetch"); !strings.HasPrefix(got, "PM_ERR_") {
				t.Errorf("PCP's pmcd: %s", got)
			}
			if got := p.clients[1].lookup("simple.numfetch"); got != name { // docs/compatibility.md, Life cycle
				t.Errorf("ours: %s", got)
			}
			if s.text != "" { // see notInForce
				p.hangup(t)
				p.logs(regexp.MustCompile(`PMNS file "pmns" is unchanged|Error: pmLoadASCIINameSpace`))
			}
		})
	}
	t.Run("HUP, good names", func(t *testing.T) {
		put("pmns", string(pmns))()
		p.hangup(t)
		p.compareLogs(t, reloaded)
		p.same(t, "names", name, func(_ *peer.Daemon, c *conn) string { return c.lookup("simple.numfetch") })
	})
	t.Run("bad PDUs", func(t *testing.T) {
		for _, s := range []struct{ bytes, log string }{
			{"\x00\x01\x10\x00\x00\x00\x70\x03\x00\x00\x00\x00", "exceeds maximum"},
			{"\x00\x00\x00\x04\x00\x00\x70\x03\x00\x00\x00\x00", "illegal PDU"},
		} {
			p.both(func(d *peer.Daemon, _ *conn) {
				c := handshake(t, d)
				if _, err := c.Write([]byte(s.bytes)); err != nil {
					t.Fatal(err)
				}
				ended(c)
			})
			p.compareLogs(t, s.log)
		}
		p.both(func(d *peer.Daemon, _ *conn) {
			c := dialRaw(t, d, "")
			if err := c.Handshake(0); err != nil {
				t.Fatal(err)
			}
			m, err := c.Do(&pdu.Fetch{PMIDs: []pdu.PMID{simpleID}})
			if e, ok := m.(*pdu.Error); err != nil || !ok || e.Code != pdu.ErrnoNoProfile {
				t.Errorf("%s: %+v, %v", d.Path, m, err)
			}
			c.Close()
		})
		p.compareLogs(t, "no profile")
	})
	t.Run("pmcd.control", func(t *testing.T) {
		testutil.NeedRoot(t)
		p.alone(t)
		p.both(func(d *peer.Daemon, c *conn) { c.control(t, 15, 1) }) // sighup
		p.compareLogs(t, reloaded)
		p.both(func(d *peer.Daemon, c *conn) { c.control(t, 13, 1) }) // dumpconn
		p.compareLogs(t, `=  =+\n.*sock`)
	})
	t.Run("end", func(t *testing.T) {
		for _, stop := range p.stop {
			stop()
		}
		p.compareLogs(t, "Log finished")
	})
	for _, rows := range [][]*lineRow{onlyC, onlyOurs} {
		for _, r := range rows {
			if !r.met && !t.Failed() {
				t.Errorf("no line is like %v (%s): remove it", r.line, r.why)
			}
		}
	}
}

// kill kills an agent of both and waits until a fetch has noticed.
func (p *pair) kill(name string) {
	p.t.Helper()
	p.both(func(d *peer.Daemon, c *conn) {
		for _, a := range peer.Descendants(d.PID()) {
			if strings.Contains(a.Name, name) {
				syscall.Kill(a.PID, syscall.SIGKILL)
			}
		}
		if !peer.Until(peer.Hangs, func() bool { got, _ := c.fetch(simpleID); return got == "PM_ERR_NOAGENT" }) {
			p.t.Fatalf("%s: %s lives", d.Path, name)
		}
	})
}
