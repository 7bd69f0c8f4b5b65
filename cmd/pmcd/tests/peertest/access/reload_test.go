package access

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// waiting is how long anything may take that takes no time.
const waiting = peer.Hangs

// reload gives the daemon other rules and waits until it has read them.
func reload(t *testing.T, p *peer.Daemon, rules string) {
	t.Helper()
	path := filepath.Join(p.Dir, "conf")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	agents, _, _ := strings.Cut(string(text), "[access]")
	if err := os.WriteFile(path, []byte(agents+"[access]\n"+rules+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	hangup(t, p)
}

// hangup sends SIGHUP and waits until the daemon has done its work: the last
// step is to look at the name space.
func hangup(t *testing.T, p *peer.Daemon) {
	t.Helper()
	done := func() int { return strings.Count(p.Log(), `PMNS file "pmns" is unchanged`) }
	before := done()
	if err := p.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if !peer.Until(waiting, func() bool { return done() > before }) {
		t.Fatal("it does not read its configuration")
	}
}

// What a reload does to clients that are connected, in order: "fs" and so on
// for one that stays, the name of the error for one that is disconnected.
var reloadVectors = []struct {
	before, clients, after, want string
}{
	{`allow * : all;`, "C C C", `allow * : all, maximum 1 connections;`, "fs PM_ERR_CONNLIMIT PM_ERR_CONNLIMIT"},
	{`allow * : all, maximum 3 connections;`, "C C C", `allow * : all, maximum 3 connections;`, "fs fs fs"},
	{`allow * : all;`, "C B C U E", `disallow * : store; allow 192.0.2.2 : all; disallow "fd00::2" : all;`, "fs f- fs f- PM_ERR_PERMISSION"},
	{`disallow * : store;`, "C A U", ``, "f- f- f-"}, // an empty section is a mistake
	{`allow * : fetch;`, "C U", `disallow * : all, frobnicate;`, "fs fs"},
	{`allow * : all;`, "T R P N", `allow user root : all; allow user pcp : fetch; disallow user pcp : store;`,
		"PM_ERR_PERMISSION fs f- PM_ERR_PERMISSION"},
	{`allow * : all;`, "R R P", `allow user root : all, maximum 1 connections; allow user pcp : all;`, "fs PM_ERR_CONNLIMIT fs"},
	{`allow user root : all;`, "R P", `allow user pcp : all;`, "PM_ERR_PERMISSION fs"},
}

func TestPeerReload(t *testing.T) {
	require(t)
	for _, v := range reloadVectors {
		each(t, v.before+" "+v.after, func(t *testing.T, d daemon) {
			p := d.start(t, config(v.before))
			letters := strings.Fields(v.clients)
			var clients []*client
			for _, letter := range letters {
				c := dial(t, p, letter)
				c.connect()
				clients = append(clients, c)
			}
			reload(t, p, v.after)
			want := strings.Fields(v.want)
			for range 2 {
				for i, c := range clients {
					switch {
					case c == nil:
					case !strings.HasPrefix(want[i], "PM_ERR_"):
						if got := c.rights(false); got != want[i] {
							t.Errorf("client %d, %s: got %s, want %s", i, letters[i], got, want[i])
						}
					default:
						if got := c.end(); got != want[i] {
							t.Errorf("client %d, %s: got %s, want %s", i, letters[i], got, want[i])
						}
						if got := c.end(); d.ours && got != "EOF" {
							t.Errorf("client %d, %s: then got %s", i, letters[i], got)
						}
						c.close()
						clients[i] = nil
					}
				}
				hangup(t, p) // the second time nothing has changed
			}
		})
	}
}

var (
	// C pmcd fills the column up if the host has a name.
	fdColumn = regexp.MustCompile(`^ +\d+  (\S+) +(\d+)( .*)?$`)
	fdText   = regexp.MustCompile(`\(fd \d+\) .* (\(-\d+\))$`)
)

// accessLog is what the log says of access, without what cannot be the same:
// descriptors, directories and our own words for an error.
func accessLog(p *peer.Daemon) string {
	var lines []string
	table := false
	for line := range strings.Lines(p.Log()) {
		line = strings.TrimRight(line, " \n")
		switch {
		case strings.Contains(line, "access list"), strings.HasPrefix(line, "Current PMCD clients"):
			table = true
		case strings.HasPrefix(line, "access violation"), strings.HasPrefix(line, "endclient"):
		case line == "":
			table = false
			continue
		case !table:
			continue
		}
		line = fdText.ReplaceAllString(line, "(fd FD) $1")
		line = fdColumn.ReplaceAllString(line, "FD $1 $2$3")
		lines = append(lines, p.Anonymous(peer.Unix, line))
	}
	return strings.Join(lines, "\n")
}

// The log has the same tables and lines from both.
func TestPeerLog(t *testing.T) {
	require(t)
	text := make(map[string]string)
	for _, d := range daemons {
		p := d.start(t, config(`allow 192.0.2.2, "fd00::2" : all, maximum 2 connections; disallow 127.0.0.2 : all; disallow "unix:" : store; disallow .* : store;`))
		for _, letter := range strings.Fields("C C C E B B C") {
			c := dial(t, p, letter)
			if got := c.connect(); got == refused || got == limit || got == reset {
				c.close()
			}
		}
		hangup(t, p)
		reload(t, p, `allow 192.0.2.2 : all; allow "fd00::2" : all; allow users root : all, maximum 3 connections; allow user pcp : fetch; disallow user pcp : store;`)
		dial(t, p, "R").connect()
		dial(t, p, "P").connect()
		dial(t, p, "N").connect()
		hangup(t, p)
		text[d.name] = accessLog(p)
	}
	if text["C"] != text["ours"] {
		t.Errorf("C pmcd:\n%s\n\nours:\n%s", text["C"], text["ours"])
	}
}

// PCP's own clients are told what raw ones are. With -Q they take 127.0.0.1 for
// a host as any other.
func TestPeerClients(t *testing.T) {
	require(t)
	for _, v := range []struct{ rules, program, host, want string }{
		{`disallow 192.0.2.2 : store;`, "pminfo -f", "192.0.2.2", "value 2"},
		{`disallow 192.0.2.2 : store;`, "pmstore", "192.0.2.2", "No permission to perform requested operation"},
		{`disallow 192.0.2.2 : store;`, "pmstore", "127.0.0.2", "old value=2 new value=9"},
		{`disallow 192.0.2.2 : all;`, "pminfo -f", "192.0.2.2", "No permission to perform requested operation"},
		{`allow * : all, maximum 1 connections;`, "pminfo -f", "192.0.2.2", "value 2"},
		{`allow user root : all;`, "pminfo -f", "unix", "value 2"},
		{`-Q`, "pminfo -f", "192.0.2.2", "certificate"},
		{`-Q`, "pminfo -f", "127.0.0.1", "certificate"},
		{`-Q`, "pminfo -f", "unix", "value 2"},
	} {
		each(t, fmt.Sprint(v.rules, v.program, v.host), func(t *testing.T, d daemon) {
			p := d.start(t, config(v.rules))
			host := v.host + ":{port}"
			if v.host == "unix" {
				host = "{host}"
			}
			args := append(strings.Fields(v.program), "-h", host, "-n", "pmns", "pmcd.seqnum")
			if v.program == "pmstore" {
				args = append(args, "9")
			}
			out, err := p.Run(t.Context(), peer.Unix, peer.Client{Args: args})
			if err != nil {
				t.Fatal(err)
			}
			// The refusals of C pmcd may get lost.
			lost := !d.ours && out.Code != 0 && strings.HasSuffix(v.rules, ": all;")
			if !strings.Contains(out.String(), v.want) && !lost {
				t.Errorf("%s", out)
			}
		})
	}
}
