package serve

import (
	"bytes"
	"context"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/testutil"
)

var update = flag.Bool("update", false, "write testdata/dbpmda.out; review the result")

// variableParts are the parts of dbpmda's output that differ between runs or
// transports.
var variableParts = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`(?s)^.*?\n(dbpmda> )`), "$1"}, // open
	{regexp.MustCompile(`(?m)^(PMDA|Connection): .*$`), "$1: X"},
	{regexp.MustCompile(`dump from 0x[0-9a-f]+`), "dump from X"},
}

// dbpmda(1) sends all its requests, and its output is the same with all
// transports.
func TestPeerDbpmda(t *testing.T) {
	dbpmda := testutil.NeedPeer(t, "dbpmda")
	script, err := os.ReadFile("testdata/dbpmda.in")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, transport := range []string{"pipe", "inet", "ipv6", "unix"} {
		t.Run(transport, func(t *testing.T) {
			dir := t.TempDir()
			var open string
			var c *process
			switch transport {
			case "pipe":
				pmda := filepath.Join(dir, "pmdacolours")
				if err := os.Symlink(self, pmda); err != nil {
					t.Fatal(err)
				}
				open = "open pipe " + pmda + " -d 120 -l " + filepath.Join(dir, "log")
			case "unix":
				path := filepath.Join(dir, "socket")
				c = startChild(t, false, "-u", path)
				address(t, c.text)
				open = "open socket unix " + path
			default:
				if transport == "ipv6" {
					testutil.NeedIPv6(t)
				}
				c = startChild(t, false, map[string]string{"inet": "-i", "ipv6": "-6"}[transport], "0")
				_, port, err := net.SplitHostPort(address(t, c.text))
				if err != nil {
					t.Fatal(err)
				}
				open = "open socket " + transport + " " + port
			}
			ctx, cancel := context.WithTimeout(t.Context(), testutil.Hangs)
			defer cancel()
			cmd := exec.CommandContext(ctx, dbpmda, "-f", "-n", "testdata/pmns", "-ie")
			cmd.Stdin = strings.NewReader(open + "\n" + string(script))
			cmd.WaitDelay = time.Second
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s%s", err, out, &stderr)
			}
			for _, m := range variableParts {
				out = m.re.ReplaceAll(out, []byte(m.to))
			}
			if *update && transport == "pipe" {
				if err := os.WriteFile("testdata/dbpmda.out", out, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile("testdata/dbpmda.out")
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out, want) {
				t.Errorf("got\n%s\nwant\n%s\nstderr\n%s", out, want, &stderr)
			}
			if c != nil {
				if status, log := c.wait(t); status != 0 || !strings.Contains(log, `Info: attribute client=0 key=username value=tanya`) {
					t.Errorf("ended with %#x; log:\n%s", status, log)
				}
			}
		})
	}
}

// For each command line the exit code is the same as that of PCP's pmdasimple, and
// so is the text of an error.
func TestPeerCommandLine(t *testing.T) {
	simple := testutil.NeedPeer(t, "../../.peers/pmdasimple")
	simple, err := filepath.Abs(simple)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	ours := Program{
		Name: "pmdasimple", Domain: 253, Log: "simple.log",
		New: func(s Start) (agents.Agent, error) { return newColours(s) },
	}
	for _, args := range [][]string{
		{}, {"-p"}, {"-p", "-p"}, {"--pipe"}, {"--pi"},
		{"-d5"}, {"-d", "253"}, {"-pd", "5"}, {"--domain=7"}, {"--dom", "7"},
		{"-l", "other.log"}, {"-lother.log"}, {"-l", "-"}, {"--log=-"}, {"-l", "/no/such/log"},
		{"-D", "all"}, {"-D", "pdu,libpmda"}, {"-D", "LIBPMDA"}, {"-D", "512"}, {"--"},
		{"-?"}, {"--help"}, {"--he"}, {"-p?"},
		{"-d"}, {"-d", "abc"}, {"-d", "5x"}, {"-pd5x"}, {"-d", "0x10"}, {"--domain"}, {"--domain", "x", "-?"},
		{"-p", "-i", "5"}, {"-i", "5", "-p"}, {"-i", "5", "-6", "5"}, {"-u", "x", "-i", "5"}, {"-p", "-u", "x", "-6", "3"},
		{"-i"}, {"-6"}, {"-u"}, {"-l"}, {"-U"}, {"-D"},
		{"-D", "nosuch"}, {"-D", "none"}, {"-D", "pdu,-libpmda"}, {"-D", "nosuch", "-d", "y"},
		{"-Z"}, {"-pZ"}, {"-Z", "-Y"}, {"-h", "x"}, {"--bogus"}, {"--bogus=1"}, {"--pipe=1"}, {"--i", "5"},
		{"-l", "-", "-i", "nosuchservice"}, {"-l", "-", "-u", "/no/such/socket"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), testutil.Hangs)
		cmd := exec.CommandContext(ctx, simple, args...)
		var theirs bytes.Buffer
		cmd.Stderr = &theirs
		err := cmd.Run() // stdin is empty: the stream ends at once
		cancel()
		if cmd.ProcessState == nil || ctx.Err() == context.DeadlineExceeded {
			t.Fatalf("%q: %v", args, err)
		}
		var stderr bytes.Buffer
		code := run(t.Context(), ours, args, strings.NewReader(""), new(bytes.Buffer), &stderr)
		if want := cmd.ProcessState.ExitCode(); code != want {
			t.Errorf("%q: exit code %d, pmdasimple's %d\n%s\n%s", args, code, want, &stderr, &theirs)
		}
		if strings.Contains(theirs.String(), "Usage: ") && stderr.String() != theirs.String() {
			t.Errorf("%q: got\n%s\npmdasimple says\n%s", args, &stderr, &theirs)
		}
	}
}
