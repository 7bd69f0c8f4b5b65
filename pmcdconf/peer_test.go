package pmcdconf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// oracle returns the path of the real pmcd of PCP 6.0.3: $PMCD_ORACLE or the
// installed one.
func oracle(t *testing.T) string {
	t.Helper()
	path := os.Getenv("PMCD_ORACLE")
	if path == "" {
		path = "/usr/lib/pcp/bin/pmcd"
	}
	if _, err := os.Stat(path); err != nil {
		testutil.Missing(t, err)
	}
	return path
}

// A verdict is pmcd's output about a configuration.
type verdict struct {
	ok    bool
	lines []string // "pmcd 3" or "access 1", sorted, each once
	said  string   // all of the messages
	table string   // the access lists
}

var (
	complaint = regexp.MustCompile(`(?m)^(pmcd|access) config\[line (\d+)\]`)
	aGroup    = regexp.MustCompile(`(?m)^( [ yn] {1,2}[ yn] +\d+ +\d+ +(?:\d+|\*) \S+ +).*$`)
)

func (v *verdict) complaints(text string) {
	for _, m := range complaint.FindAllStringSubmatch(text, -1) {
		v.lines = append(v.lines, m[1]+" "+m[2])
	}
	slices.Sort(v.lines)
	v.lines = slices.Compact(v.lines)
}

// verify runs the real pmcd on a file. It only parses.
func verify(t *testing.T, pmcd, path string) (v verdict) {
	t.Helper()
	var out bytes.Buffer
	run := func(args ...string) int {
		ctx, cancel := context.WithTimeout(t.Context(), testutil.Hangs)
		defer cancel()
		out.Reset()
		cmd := exec.CommandContext(ctx, pmcd, append(args, "-v", "-c", path)...)
		cmd.Stderr = &out
		err := cmd.Run()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatalf("%v: %v", cmd, err)
		}
		return cmd.ProcessState.ExitCode()
	}
	// With appl1 it prints the access lists. It crashes with some of them.
	code := run("-D", "appl1")
	if code < 0 {
		code = run()
	}
	if v.ok = code == 0; code != 0 && code != 1 {
		t.Fatalf("%s: exit %d\n%s", path, code, &out)
	}
	v.said = out.String()
	v.complaints(v.said)
	if i := strings.Index(v.said, "Host access list"); i >= 0 {
		v.table = withoutMembers(strings.TrimSpace(v.said[i:]))
	}
	return v
}

// withoutMembers returns the access lists without the members of groups.
func withoutMembers(s string) string {
	if i := strings.Index(s, "Group access list"); i >= 0 {
		s = s[:i] + aGroup.ReplaceAllString(s[i:], "$1")
	}
	return trimLines(s)
}

func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// ours returns the same of this package, with the names of this host.
func ours(t *testing.T, path string) (v verdict) {
	t.Helper()
	conf, err := ParseFile(t.Context(), path, Options{})
	if conf == nil {
		t.Fatal(err)
	}
	v.ok = err == nil
	for _, e := range conf.Problems {
		v.said += e.PCP() + "\n"
	}
	v.complaints(v.said)
	v.table = withoutMembers(conf.Access.String())
	return v
}

// diff returns how two verdicts differ, or "".
func diff(got, want verdict) string {
	switch {
	case got.ok != want.ok:
		return fmt.Sprintf("accepted: %v, pmcd: %v", got.ok, want.ok)
	case !slices.Equal(got.lines, want.lines):
		return fmt.Sprintf("mistakes in %q, pmcd: %q", got.lines, want.lines)
	case got.ok && want.table != "" && got.table != want.table:
		return fmt.Sprintf("access lists\n%s\npmcd:\n%s", got.table, want.table)
	}
	return ""
}

// compare compares the verdicts of both about a case.
func compare(t *testing.T, pmcd string, tt *fileCase) {
	t.Helper()
	path := tt.write(t)
	got, want := ours(t, path), verify(t, pmcd, path)
	d := diff(got, want)
	if d != "" && tt.differs == "" && verify(t, pmcd, path).table != want.table {
		t.Log("pmcd's access lists are others when it is asked again: it prints memory that it has not initialized")
		want.table = ""
		d = diff(got, want)
	}
	if d != "" && tt.differs == "" {
		t.Errorf("%s: %s\nsays\n%s\npmcd:\n%s", tt.name, d, got.said, want.said)
	}
	if d == "" && tt.differs != "" && !tt.varies {
		t.Errorf("%s: no difference from pmcd, though %s", tt.name, tt.differs)
	}
	if tt.differs != "" {
		return
	}
	// Mistakes in the syntax have the same messages.
	for _, line := range strings.Split(strings.TrimSpace(got.said), "\n") {
		if strings.Contains(line, "access control error") || strings.Contains(line, "NUL character") {
			continue
		}
		if line = strings.TrimPrefix(line, "Warning: "); line != "" && !strings.Contains(want.said, line) &&
			!strings.HasPrefix(line, "access config: Can't") && !strings.HasPrefix(line, "pmcd config: Can't") {
			t.Errorf("%s: pmcd does not say %q but\n%s", tt.name, line, want.said)
		}
	}
}

// The verdict and the lines with mistakes are those of the real pmcd.
func TestPeerVerify(t *testing.T) {
	pmcd := oracle(t)
	for i := range fileCases {
		t.Run(fileCases[i].name, func(t *testing.T) {
			compare(t, pmcd, &fileCases[i])
		})
	}
}

func TestPeerHosts(t *testing.T) {
	pmcd := oracle(t)
	for name := range badHosts {
		t.Run(name, func(t *testing.T) {
			compare(t, pmcd, &fileCase{name: name, conf: head + "allow \"" + name + "\" : fetch;"})
		})
	}
	// Pairs of host identifiers that pmcd takes for the same, or not.
	for _, pair := range [][2]string{
		{"1..*", "1.0.*"}, {"1.2*", "1.2.*"}, {"010.*", "10.*"}, {"010.*", "8.*"},
		{"fe80::1*", "fe80::1:*"}, {"fe80: 1:*", "fe80:1:*"}, {"0x1:*", "1:*"},
		{"0::*", "::*"}, {"0::*", "0:0:*"}, {"::*", ":*"}, {"fe80::0:*", "fe80:0:0:*"}, {"fe80::*", "fe80:*"},
		{"1:2:3:4:5:6::*", "1:2:3:4:5:6:0:*"}, {"1:2:3:4:5:6:7:*", "1:2:3:4:5:6:7:0"},
		{"1::6:7:*", "1:0:0:0:0:6:7:*"}, {"0ffff:*", "ffff:*"},
		{"1.2.3", "1.2.0.3"}, {"1", "0.0.0.1"}, {"0x7f.1", "127.0.0.1"}, {"010.1.1.1", "8.1.1.1"},
		{"4294967295", "255.255.255.255"}, {"::1.2.3.4", "::102:304"}, {"::ffff:1.2.3.4", "1.2.3.4"},
		{"::ffff:1.2.3.4", "::ffff:102:304"}, {"fe80::1%lo", "fe80::1"},
		{"*", ".*"}, {"*", "unix:"}, {"*", "::*"}, {"unix:", "unix:/foo"},
		{"local:", "localhost"}, {"localhost", "LocalHost"}, {"localhost", "127.0.0.1"}, {"localhost", "::1"},
	} {
		t.Run(pair[0]+" "+pair[1], func(t *testing.T) {
			text := fmt.Sprintf("%sallow %q : fetch; disallow %q : fetch;", head, pair[0], pair[1])
			compare(t, pmcd, &fileCase{name: strings.Join(pair[:], " and "), conf: text})
		})
	}
	for name, rules := range map[string]string{
		"unix: and local:":            `allow "unix:" : fetch; disallow "local:" : fetch;`,
		"local: and unix:":            `allow "local:" : fetch; disallow "unix:" : fetch;`,
		"local: and all others":       `allow "local:*" : all; disallow * : all;`,
		"all, and one kind of others": `disallow ".*" : all; allow * : fetch; allow "192.0.2.*" : fetch;`,
	} {
		compare(t, pmcd, &fileCase{name: name, conf: head + rules})
	}
}
