package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

var recordLog = flag.Bool("record-log", false, "write what pmcd logs to testdata/pmcd.log")

// logEvents runs a pmcd, has agents and clients do what it logs, and returns the log.
func logEvents(t *testing.T, args ...string) (log string, p *pmcdtest.Place) {
	p = pmcdtest.NewPlace(t, pmcdtest.Self(t))
	if err := os.Symlink(pmcdtest.Self(t), p.At(pmcdtest.ScriptName)); err != nil {
		t.Fatal(err)
	}
	script := func(domain int, what string) string {
		return fmt.Sprintf("%q %d pipe binary %s %s %q\n", what, domain, p.At(pmcdtest.ScriptName), p.Dir, what)
	}
	// write writes the configuration, with at most one agent that fails: agents start
	// at the same time.
	write := func(agent string) {
		p.Write("conf", "pmcd 2 dso pmcd_init /none\nsimple 253 dso simple_init /none/pmda_simple.so\n"+script(299, "good")+agent+
			"[access]\nallow \"local:*\" : all;\ndisallow \"127.0.0.2\" : all;\n")
	}
	write("")
	cmd := p.Command(append([]string{"-f", "-U", pmcdtest.User(), "-t", "3", "--late-grace=1"}, args...)...)
	cmd.Env = append(cmd.Env, "PMCD_RESTART_AGENTS=0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := func() string { return pmcdtest.Read(p.At("log/pmcd.log")) }
	seen := 0
	// await waits for a text in what was logged since the last call.
	await := func(text string) {
		t.Helper()
		if !peer.Until(peer.Hangs, func() bool { return strings.Contains(read()[seen:], text) }) {
			t.Fatalf("%q is not in the log:\n%s", text, read()[seen:])
		}
		seen += strings.Index(read()[seen:], text) + len(text)
	}
	hangup := func() {
		t.Helper()
		cmd.Process.Signal(syscall.SIGHUP)
		await("pmcd RESTARTED at ")
		await("is unchanged")
	}
	fetch := func(c *pdutest.Client, domain int) {
		t.Helper()
		if _, err := c.Do(&pdu.Fetch{PMIDs: []pdu.PMID{pdu.NewPMID(domain, 0, 1)}}); err != nil {
			t.Fatal(err)
		}
	}
	dial := func() *pdutest.Client {
		t.Helper()
		c, err := pdutest.Dial("unix", p.At("run/sock"), "")
		if err == nil {
			err = errors.Join(c.Handshake(0), c.Send(&pdu.Profile{}))
		}
		if err != nil {
			t.Fatal(err)
		}
		fetch(c, 299) // the table of clients has its version
		return c
	}
	// send sends bytes after the handshake and reads until pmcd closes the connection.
	send := func(conn net.Conn, b []byte) {
		conn.SetDeadline(time.Now().Add(testutil.Hangs))
		conn.Write(b)
		io.Copy(io.Discard, conn)
		conn.Close()
	}

	await("pmcd request port(s):")
	await("ok")
	await("inet ")
	port := regexp.MustCompile(`ok +\d+ (\d+) inet`).FindStringSubmatch(read())
	if port == nil {
		t.Fatal(read())
	}
	tcp, err := pdutest.Dial("tcp", "127.0.0.1:"+port[1], "127.0.0.2")
	if err != nil {
		t.Fatal(err)
	}
	send(tcp.Conn, nil)
	await("endclient client[")

	c := dial()
	if err := c.Send(&pdu.Fetch{Context: 7, PMIDs: []pdu.PMID{pdu.NewPMID(299, 0, 1)}}); err != nil {
		t.Fatal(err)
	}
	await("DoFetch: no profile for ctxnum=7")
	send(c.Conn, []byte{0x7f, 0, 0, 0, 0, 0, 0x70, 3, 0, 0, 0, 0})
	await("__pmGetPDU: ")

	write(script(300, "exits at once"))
	hangup()
	write("nosuch 302 pipe binary /none/pmdanosuch\n")
	hangup()
	write("nosock 303 socket unix /none/sock\n")
	hangup()
	c = dial()
	write(script(301, "exits in a fetch"))
	hangup()
	fetch(c, 301)
	await("| it ends here")
	write(script(304, "hangs"))
	hangup()
	fetch(c, 304)
	await("is late")
	await("is down")
	p.Write("conf", "pmcd 2 dso\nwhat is this\n")
	hangup()
	write("")
	p.Write("pmns", "root { pmcd }\npmcd { numclients 2:0:3 numclients 2:0:4 }\n")
	cmd.Process.Signal(syscall.SIGHUP)
	await("pmcd RESTARTED at ")
	await("the names that were loaded before stay in use")
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	return read(), p
}

// varies has what differs from one run of pmcd to the next.
var varies = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`(?m)^\[\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d\] pmcd\(\d+\)`), "[TIME] pmcd(PID)"},
	{regexp.MustCompile(`\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}`), "DATE"},
	{regexp.MustCompile(`PID = \d+`), "PID = N"},
	{regexp.MustCompile(`(fd[= ])\d+`), "${1}N"},
	{regexp.MustCompile(`process \d+`), "process N"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ms|µs|s)\b`), "DURATION"},
	{regexp.MustCompile(`(?m)^(\S.{11,} +\d+) +\d+ +\d+ +\d+   2 bin`), "${1} PID IN OUT 2 bin"},
	{regexp.MustCompile(`ok +\d+ +(\d+ +)?`), "ok FD PORT "},
	{regexp.MustCompile(`(?m)^ +\d+  DIR/run/sock +`), "     FD  DIR/run/sock  "},
	{regexp.MustCompile(`it closed the connection \((the process has exited with status 5)\)`), "it closed the connection; ${1}"},
	{regexp.MustCompile(`terminated, exit\(0\)`), "terminated"},
	// The end of the connection may be noticed before the last line of the agent.
	{regexp.MustCompile(`(\n\[TIME\] pmcd\(PID\) Info: CleanupAgent \.\.\.\nCleanup "exits in a fetch" .*)(\nagent "exits in a fetch": it ends here)\n`), "${2}${1}\n"},
}

// withoutVaries returns the log of p with names in place of what varies.
func withoutVaries(log string, p *pmcdtest.Place) string {
	host, _ := os.Hostname()
	log = strings.ReplaceAll(log, p.Dir, "DIR")
	log = strings.ReplaceAll(log, " on "+host+" started", " on HOST started")
	for _, v := range varies {
		log = v.re.ReplaceAllString(log, v.to)
	}
	return log
}

const recordedLog = "testdata/pmcd.log"

// The text of pmcd.log is what it was when testdata/pmcd.log was recorded, byte for
// byte: scripts and PCP's QA read it.
func TestLogText(t *testing.T) {
	testutil.NeedRoot(t) // -U root is for root
	got, p := logEvents(t)
	got = withoutVaries(got, p)
	// Agents end at the same time.
	head, tail, _ := strings.Cut(got, "[TIME] pmcd(PID) Info: pmcd caught ")
	lines := strings.SplitAfter(tail, "\n")
	slices.Sort(lines[1:])
	got = head + "caught " + strings.Join(lines, "")
	if *recordLog {
		if err := os.WriteFile(recordedLog, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if want := pmcdtest.Read(recordedLog); got != want {
		for line := range strings.Lines(got) {
			if !strings.Contains(want, line) {
				t.Errorf("new: %s", line)
			}
		}
		for line := range strings.Lines(want) {
			if !strings.Contains(got, line) {
				t.Errorf("missing: %s", line)
			}
		}
		t.Errorf("got\n%s", got)
	}
}

// With --log-format=json the texts are the same, and entries have fields.
func TestLogFields(t *testing.T) {
	testutil.NeedRoot(t) // -U root is for root
	log, p := logEvents(t, "--log-format=json")
	var texts strings.Builder
	var entries []map[string]any
	for line := range strings.Lines(log) {
		if !strings.HasPrefix(line, "{") { // of an agent
			texts.WriteString(line)
			continue
		}
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		entries = append(entries, e)
		fmt.Fprintln(&texts, e["msg"])
	}
	all := withoutVaries(texts.String(), p)
	severity := regexp.MustCompile(`^\[TIME\] pmcd\(PID\) \w+: `)
	for line := range strings.Lines(pmcdtest.Read(recordedLog)) {
		if text := severity.ReplaceAllString(line, ""); !strings.Contains(all, text) {
			t.Errorf("no entry has %q", text)
		}
	}
	const down = "agent {agent:q} (dom {domain}) is down: {error}; it is started again at SIGHUP (PMCD_RESTART_AGENTS=0)"
	for _, want := range []map[string]any{
		{"msg": "Warning: restartAgents=0 from PMCD_RESTART_AGENTS=0 in environment", "level": "warn"},
		{"agent": "simple", "domain": 253.0, "path": "/none/pmda_simple.so", "level": "info"},
		{"template": "access violation from host {address}", "client": 0.0, "address": "127.0.0.2"},
		{"template": "endclient client[{client}]: (fd {fd}) {error} ({code})", "client": 0.0, "error": "not allowed", "code": -12387.0},
		{"template": "DoFetch: no profile for ctxnum={context}; client[{client}] {address}", "context": 7.0, "client": 0.0, "address": p.At("run/sock")},
		{"client": 0.0, "error": "type=0x7003 bad PDU len=2130706432 in hdr exceeds maximum client PDU size (65536)"},
		{"agent": "exits at once", "domain": 300.0, "attempt": 1.0, "output": []any{"it ends here"}, "level": "error",
			"template": "cannot start {agent:q} agent (dom {domain}): {error}; it is started again at SIGHUP (PMCD_RESTART_AGENTS=0)\n\tend of its stderr:{output}",
			"error":    "cannot negotiate with the agent: it closed the connection (the process has exited with status 3)"},
		{"agent": "nosuch", "domain": 302.0, "error": "error starting /none/pmdanosuch: no such file or directory"},
		{"agent": "exits in a fetch", "domain": 301.0, "error": "protocol failure for fd=",
			"template": "CleanupAgent ...\nCleanup {agent:q} agent (dom {domain}): {error}"},
		{"agent": "hangs", "domain": 304.0, "state": "late", "request": "FETCH", "client": 0.0},
		{"agent": "hangs", "domain": 304.0, "error": "late for ", "client": 0.0, "request": "FETCH", "template": down},
		{"error": "pmcd config[line 2]: Error: expected domain number for \"what\" agent", "path": "conf", "line": 2.0, "event": "conf_mistake"},
		{"event": "agent_table"},
		{"event": "log_started"},
		{"template": "pmcd caught {signal} from unknown process", "signal": "SIGTERM"},
	} {
		if !slices.ContainsFunc(entries, func(e map[string]any) bool { return hasFields(e, want) }) {
			t.Errorf("no entry has %v", want)
		}
	}
	if t.Failed() {
		t.Log(log)
	}
}

// hasFields reports whether an entry has some fields; of an error, the beginning.
func hasFields(e, want map[string]any) bool {
	for name, v := range want {
		if text, ok := e[name].(string); ok && name == "error" {
			if !strings.HasPrefix(text, v.(string)) {
				return false
			}
		} else if !reflect.DeepEqual(e[name], v) {
			return false
		}
	}
	return true
}
