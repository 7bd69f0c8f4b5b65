package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
)

func TestPrintStatus(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	nobody := int64(1<<32 - 2)
	r := &ctl.Report{
		Version: "7.2.1", Build: "b", PID: 7, UID: 1<<31 - 2, Now: now, Started: now.Add(-50 * time.Hour),
		Config: "/conf", Namespace: "/names", Listening: []string{"tcp:[::]:44321", "unix:/s"},
		Agents: []ctl.Agent{
			{Name: "linux", Domain: 60, Kind: "pipe", State: "ready", Since: now.Add(-time.Minute), PID: 12, Requests: 1000, Errors: 1, MeanUS: 120, MaxUS: 4321},
			{Name: "long name", Domain: 500, Kind: "socket", State: "not ready"},
			{Name: "bad", Domain: 1, Kind: "dso", State: "down", Since: now, Restarts: 3, Failures: 2, NextStart: now.Add(90 * time.Second),
				LastError: "the process has exited with status 1", ErrorAt: now.Add(-2 * time.Second), StderrTail: []string{"no such\x1b[2J", "device"}},
		},
		Clients: []ctl.Client{
			{Number: 3, Address: "::1", Since: now.Add(-time.Second), Denied: "store"},
			{Number: 4, Address: "unix:/s", Since: now, UID: &nobody, Whoami: "me\r\n\x00", Container: "c"},
		},
		Reloads:  ctl.Reloads{Count: 2, Last: now.Add(-25 * time.Hour)},
		TLS:      &ctl.TLS{Subject: "CN=host\x1b", Expires: now.AddDate(1, 0, 0)},
		Problems: []string{"there is no 10.0.0.1 to listen at"},
		Limits: []ctl.Limit{
			{Name: "clients", Used: 2},
			{Name: "profiles", Unit: "bytes", Used: 17 << 10, Limit: 32 << 20, Disconnected: 3, Last: "10.0.0.1", LastAt: now.Add(-time.Minute)},
		},
	}
	r.Agents[0].Note = "runs as pcp: /opt/x is writable by bob"
	const want = `pmcd b (as PCP 7.2.1), pid 7, user 2147483646, up 2d2h
configuration: /conf
name space:    /names
listening:     tcp:[::]:44321 unix:/s
TLS:           CN=host\x1b, expires on 21 November 2027
reloads:       2, the last 1d1h ago
problem:       there is no 10.0.0.1 to listen at

AGENT      DOMAIN  KIND    STATE      FOR  PID  RESTARTS  REQUESTS  ERRORS  MEAN   MAX
linux      60      pipe    ready      1m   12   0         1000      1       120us  4.32ms
long name  500     socket  not ready  -    -    0         0         0       -      -
bad        1       dso     down       <1s  -    3         0         0       -      -

linux runs as pcp: /opt/x is writable by bob

bad failed 2s ago: the process has exited with status 1
    no such\x1b[2J
    device
    2 failures in a row; it is started again in 1m30s

LIMIT     USED    OF      DISCONNECTED  LAST
clients   2       -       0             -
profiles  17 KiB  32 MiB  3             10.0.0.1, 1m ago

CLIENT  FOR  ADDRESS  USER             DENIED  WHO
3       1s   ::1      -                store   -
4       <1s  unix:/s  user 4294967294  -       [container c] me\r\n\x00
`
	var b strings.Builder
	if err := printStatus(&b, r); err != nil || b.String() != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, b.String(), want)
	}

	r.Clients = make([]ctl.Client, 10000)
	r.Reloads.Error = "no such file\nno such name"
	b.Reset()
	if err := printStatus(&b, r); err != nil || strings.Count(b.String(), "\n") > 50 ||
		!strings.HasSuffix(b.String(), "\nand 9980 more: --json has all\n") || !strings.Contains(b.String(), "\nreloads:       2, the last failed 1d1h ago: no such file; no such name\n") {
		t.Errorf("%v, got\n%s", err, b.String())
	}
}

// The line about overload names the user as the table of clients does.
func TestPrintOverload(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name string
		o    ctl.Overload
		want string // after "queued; "
	}{
		{"a user", ctl.Overload{Requests: 90, Most: "uid 0", OfMost: 80}, "of 90 requests 80 were from user root"},
		{"a user without a name", ctl.Overload{Requests: 90, Most: "uid 4294967294", OfMost: 80}, "of 90 requests 80 were from user 4294967294"},
		{"a host", ctl.Overload{Requests: 90, Most: "192.0.2.1", OfMost: 80}, "of 90 requests 80 were from 192.0.2.1"},
		{"no client has the most", ctl.Overload{Requests: 90}, "there were 90 requests"},
	} {
		tt.o.TimeMS, tt.o.Until = 12345, now.Add(-2*time.Minute)
		var b strings.Builder
		if err := printStatus(&b, &ctl.Report{Now: now, Overload: &tt.o}); err != nil {
			t.Fatal(err)
		}
		want := "\noverload:      for 12.3s of the minute that ended 2m ago requests were queued; " + tt.want + "\n"
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, b.String(), want)
		}
	}
}

// A pcp.conf that the environment names and that cannot be read is a warning: the socket
// may be at another place than that file says.
func TestStatusConf(t *testing.T) {
	dir := t.TempDir()
	none := filepath.Join(dir, "none")
	for _, tt := range []struct{ name, variable, value, want string }{
		{"no file", "PCP_CONF", none, "pcp.conf is not used: PCP_CONF: open " + none + ": no such file or directory\n"},
		{"a directory", "PCP_CONF", dir, "pcp.conf is not used: PCP_CONF: open " + dir + ": not a regular file\n"},
		{"no directory", "PCP_DIR", none, "pcp.conf is not used: PCP_DIR: open " + none + "/etc/pcp.conf: no such file or directory\n"},
		{"not named", "PCP_TMP_DIR", none, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("PMCD_SOCKET", none)
			t.Setenv(tt.variable, tt.value)
			code, _, stderr := runHere("status")
			if code != exitNone || !strings.Contains(stderr, tt.want) || strings.Contains(stderr, "pcp.conf") != (tt.want != "") {
				t.Errorf("exit code %d: %s", code, stderr)
			}
		})
	}
}

// The exit code is 0 only if nothing is to be done.
func TestExitCode(t *testing.T) {
	for _, tt := range []struct {
		name   string
		report ctl.Report
		want   int
	}{
		{"ready", ctl.Report{Agents: []ctl.Agent{{State: ctl.Ready, Note: "runs as pcp", LastError: "it died"}}}, exitOK},
		{"starting", ctl.Report{Agents: []ctl.Agent{{State: ctl.Ready}, {State: "starting"}}}, exitProblems},
		{"down", ctl.Report{Agents: []ctl.Agent{{State: "down"}}}, exitProblems},
		{"a problem", ctl.Report{Agents: []ctl.Agent{{State: ctl.Ready}}, Problems: []string{"x"}}, exitProblems},
		{"a reload that failed", ctl.Report{Reloads: ctl.Reloads{Error: "x"}}, exitProblems},
	} {
		if got := exitCode(&tt.report); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

// No text in a report can control the terminal.
func FuzzPrintStatus(f *testing.F) {
	for _, r := range []ctl.Report{
		{},
		{Agents: []ctl.Agent{{Name: "a\x1b", LastError: "e\n", StderrTail: []string{"\x00"}, Requests: 1, MeanUS: -1}}},
		{Clients: []ctl.Client{{Whoami: "\u202e", Denied: "\x9b"}}, Reloads: ctl.Reloads{Count: 1, Error: "\r"}},
	} {
		b, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r ctl.Report
		if json.Unmarshal(b, &r) != nil {
			return
		}
		var out strings.Builder
		if err := printStatus(&out, &r); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(out.String(), func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) }); i >= 0 {
			t.Errorf("%q", out.String()[i:])
		}
	})
}
