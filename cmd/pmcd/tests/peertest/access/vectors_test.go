package access

import (
	"os/user"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// Rules, and what each of the clients in a row gets: "fs" fetch and store,
// "f-" fetch alone, "R" refused, "!" an error to CREDS. What was measured with
// pmcd 6.0.3 is in c; ours is the same unless it is given.
type vector struct {
	rules, file string // of the section, and of conf.access
	c, ours     string
}

// For A 127.0.0.1, B 127.0.0.2, C 192.0.2.2, D ::1, E fd00::2, U Unix.
var hostVectors = []vector{
	{rules: ``, c: "fs fs fs fs fs fs"},
	{rules: `disallow ".*" : store; disallow ":*" : store; allow "local:*" : all;`, c: "fs f- f- fs f- fs"},
	{rules: `disallow * : all;`, c: "R R R R R R"},
	{rules: `disallow * : store;`, c: "f- f- f- f- f- f-"},
	{rules: `allow localhost : all; disallow .* : all; disallow ":*" : all;`, c: "fs R R fs R fs"},
	{rules: `allow "unix:" : all; disallow ".*" : all; disallow ":*" : all;`, c: "R R R R R fs"},
	{rules: `disallow 127.0.0.1 : all;`, c: "R fs fs R fs fs"},
	{rules: `disallow 127.0.0.2 : all;`, c: "fs R fs fs fs fs"},
	{rules: `disallow 127.* : all;`, c: "R R fs R fs fs"},
	{rules: `disallow "::1" : all;`, c: "fs fs fs fs fs fs"},
	{rules: `disallow vm : all;`, c: "R fs fs R fs fs"},
	{rules: `disallow 192.0.2.* : store; allow 192.0.2.2 : all;`, c: "fs fs fs fs fs fs"},
	{rules: `allow 192.0.2.* : all; disallow 192.* : all;`, c: "fs fs fs fs fs fs"},
	{rules: `allow 192.* : all except store;`, c: "fs fs f- fs fs fs"},
	{rules: `disallow 192.0.2.2 : all except fetch;`, c: "fs fs f- fs fs fs"},
	{rules: `allow 192.0.2.2 : fetch; disallow * : all;`, c: "R R f- R R R"},
	{rules: `disallow * : all; allow 192.0.2.2 : fetch;`, c: "R R f- R R R"},
	{rules: `allow 192.0.2.2 : fetch; disallow 192.0.2.2 : store;`, c: "fs fs f- fs fs fs"},
	{rules: `disallow ":*" : all; allow "fd00::2" : fetch;`, c: "fs fs fs fs f- fs"},
	{rules: `disallow "fd00::*" : all;`, c: "fs fs fs fs R fs"},
	{rules: `disallow "fd00:*" : all;`, c: "fs fs fs fs R fs"},
	{rules: `disallow "unix:/foo" : store;`, c: "fs fs fs fs fs f-"},
	{rules: `ALLOW HOSTS * : ALL EXCEPT STORE ;`, c: "f- f- f- f- f- f-"},
	{file: `disallow 192.0.2.2 : store;`, c: "fs fs f- fs fs fs"},
	{rules: `allow 192.0.2.2 : fetch;`, file: `disallow 192.0.2.2 : store;`, c: "fs fs f- fs fs fs"},
	{rules: `allow nosuchhost.invalid : all; disallow 192.0.2.2 : store;`, c: "fs fs f- fs fs fs"},
}

// For T TCP 127.0.0.1 and at the Unix socket R root, P pcp, N nobody. Without
// credentials a client gets an error from both, but with C pmcd it can go on.
var accountVectors = []vector{
	{rules: `-S`, c: "!fs fs fs fs", ours: "!-- fs fs fs"},
	{rules: `allow users pcp : all;`, c: "!fs !-- fs !--", ours: "!-- !-- fs !--"},
	{rules: `allow user pcp : fetch; disallow user pcp : store; allow user root : all;`, c: "!fs fs f- !--", ours: "!-- fs f- !--"},
	{rules: `allow users * : fetch; disallow user pcp : all;`, c: "!fs fs !-- fs", ours: "!-- fs !-- fs"},
	{rules: `disallow users * : store;`, c: "!fs f- f- f-", ours: "!-- f- f- f-"},
	{rules: `disallow user nobody : all;`, c: "!fs !-- !-- !--", ours: "!-- !-- !-- !--"},
	{rules: `allow groups pcp : all;`, c: "!fs !-- fs !--", ours: "!-- !-- fs !--"},
	{rules: `allow user root : all, maximum 1 connections;`, c: "!fs fs !-- !--", ours: "!-- fs !-- !--"},
	// The end of pmcd 6.0.3.
	{rules: `disallow user pcp : all; allow users * : fetch;`, ours: "!-- fs !-- fs"},
}

// For B C B C C C and so on, all connected at a time.
var limitVectors = []struct {
	rules, clients string
	c, ours        string
}{
	{`allow * : all, maximum 2 connections;`, "C C C", "fs fs L", ""},
	{`allow * : all, maximum 3 connections;`, "A A A A", "fs L L L", "fs fs fs L"},
	{`allow * : all, maximum 6 connections;`, "A A A", "fs fs L", "fs fs fs"},
	{`allow * : all, maximum 3 connections;`, "U U U U", "fs fs fs L", ""},
	{`allow * : all, maximum 10 connections;`, "U U U U U U U U U U U", "fs fs fs fs fs fs fs fs fs fs L", ""},
	{`allow host 192.0.2.2 : all, maximum 3 connections; allow host .* : all except store, maximum 2 connections;`,
		"B C B C C C", "f- fs L fs fs L", ""},
}

// What no pmcd starts with.
var badRules = []string{
	`allow host 192.0.2.2 : fetch, store; disallow host 192.0.2.2 : all except fetch;`,
	`disallow *: all; allow .*: fetch;`,
	`allow *: frobnicate;`,
	` `,
	`allow *: all`,
	`permit *: all;`,
	`allow nosuchhost.invalid : all;`,
	`allow 129.127.*.* : all;`,
	`allow fe80* : all;`,
	`allow *.melbourne : all;`,
	`allow 192.0.2.0/24 : all;`,
	`allow fd00::2 : all;`,
	`allow unix: : all;`,
	`disallow *: store, maximum 3 connections;`,
	`allow *: fetch, unlimited connections;`,
	`allow *: maximum 0 connections;`,
	`allow *: all, store;`,
	`allow *: fetch, ;`,
	`allow 192.0.2.2 192.0.2.3 : all;`,
	"allow * : all;\nb 3 dso f /x\n",
	`allow localhost: all; disallow 127.0.0.1: all;`,
	`allow user nosuchuser : all;`,
	`allow user 0 : all;`,
}

// each runs a test of both daemons, each as a parallel one of its own.
func each(t *testing.T, name string, f func(*testing.T, daemon)) {
	for _, d := range daemons {
		t.Run(d.name+" "+name, func(t *testing.T) {
			t.Parallel()
			f(t, d)
		})
	}
}

// expect compares what clients got. The refusals of C pmcd may get lost.
func (d daemon) expect(t *testing.T, clients string, got []string, c, ours string) {
	t.Helper()
	want := strings.Fields(c)
	if d.ours && ours != "" {
		want = strings.Fields(ours)
	}
	for i, letter := range strings.Fields(clients) {
		lost := got[i] == reset && !d.ours && (want[i] == refused || want[i] == limit)
		if got[i] != want[i] && !lost {
			t.Errorf("client %d, %s: got %s, want %s", i, letter, got[i], want[i])
		}
	}
}

func TestPeerHostRules(t *testing.T) {
	require(t)
	testVectors(t, "A B C D E U", hostVectors)
}

func TestPeerAccountRules(t *testing.T) {
	require(t)
	for _, name := range []string{"pcp", "nobody"} {
		if _, err := user.Lookup(name); err != nil {
			t.Fatal(err)
		}
	}
	testVectors(t, "T R P N", accountVectors)
}

func testVectors(t *testing.T, clients string, vectors []vector) {
	for _, v := range vectors {
		each(t, v.rules+v.file, func(t *testing.T, d daemon) {
			if !d.ours && v.c == "" {
				t.Skip("not for pmcd 6.0.3")
			}
			conf := config(v.rules)
			if v.file != "" {
				conf.Files = map[string]string{"conf.access": v.file}
			}
			p := d.start(t, conf)
			var got []string
			for _, letter := range strings.Fields(clients) {
				c := dial(t, p, letter)
				got = append(got, c.connect())
				c.close()
			}
			d.expect(t, clients, got, v.c, v.ours)
		})
	}
}

func TestPeerLimits(t *testing.T) {
	require(t)
	for _, v := range limitVectors {
		each(t, v.rules+v.clients, func(t *testing.T, d daemon) {
			p := d.start(t, config(v.rules))
			var got []string
			var last *client
			for _, letter := range strings.Fields(v.clients) {
				c := dial(t, p, letter)
				r := c.connect()
				if got = append(got, r); r == "fs" {
					last = c
				}
			}
			d.expect(t, v.clients, got, v.c, v.ours)
			if v.ours != "" && !d.ours {
				return // C pmcd still counts the clients that it has refused
			}
			// After the end of one another can connect.
			letter := v.clients[len(v.clients)-1:]
			last.close()
			if !peer.Until(waiting, func() bool {
				c := dial(t, p, letter)
				defer c.close()
				return c.connect() == "fs"
			}) {
				t.Errorf("no room for %s after another has gone", letter)
			}
		})
	}
}

func TestPeerBadRules(t *testing.T) {
	require(t)
	for _, rules := range badRules {
		each(t, rules, func(t *testing.T, d daemon) {
			p, err := peer.Start(d.path(t), config(rules))
			if err == nil {
				p.Stop()
				t.Fatal("it starts")
			}
			if !strings.Contains(err.Error(), "ended at start: exit status 1\n") {
				t.Error(err)
			}
		})
	}
}
