package serve

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// Errors on the command line are printed with the usage message, and no log is
// opened.
func TestCommandLine(t *testing.T) {
	p := program()
	p.Usage = "[options] [failure ...]"
	p.Options = []Option{{Short: 'x', Long: "extra", Arg: "X", Text: "one more", Set: func(arg string) error {
		if arg != "x" {
			return fmt.Errorf("-x takes x, not %s", arg)
		}
		return nil
	}}}
	const usage = `Usage: pmdacolours [options] [failure ...]

Options:
  -d NUM, --domain=NUM  use domain (numeric) for metrics domain of PMDA
  -h FILE, --helpfile=FILE
                        path to PMDA metrics help text file
  -l FILE, --log=FILE   write log to FILE rather than using default log name
  -U USER, --username=USER
                        run the PMDA using the named user account
  -x X, --extra=X       one more
  -?, --help            show this usage message and exit

Exactly one of the following options may appear:
  -i PORT, --inet=PORT  pmcd IPv4 connection service name or numeric port
  -p, --pipe            use a pipe for communication with pmcd
  -u FILE, --unix=FILE  use a unix domain socket for communication with pmcd
  -6 PORT, --ipv6=PORT  pmcd IPv6 connection service name or numeric port
`
	t.Chdir(t.TempDir())
	for _, tt := range []struct {
		args string
		want string // lines separated by |
	}{
		{"-?", ""},
		{"--help", ""},
		{"-d abc", "-d requires numeric domain number"},
		{"-d 5x -p -i 3", "-d requires numeric domain number|-i option clashes with -p option"},
		{"-d 511", "-d 511 is not a domain number, 0 to 510"},
		{"-d -1", "-d -1 is not a domain number, 0 to 510"},
		{"-d 99999999999999999999", "-d 99999999999999999999 is not a domain number, 0 to 510"},
		{"-u a -6 b", "-6 option clashes with -u option"},
		{"-D nosuch", "unrecognized debug options specification (nosuch)"},
		{"-x y", "-x takes x, not y"},
		{"-d 5 -Z", "invalid option -- 'Z'"},
		{"fail sing", "unknown failure: sing"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var stderr testutil.Log
			code := run(t.Context(), p, strings.Fields(tt.args), strings.NewReader(""), new(bytes.Buffer), &stderr)
			want := ""
			for line := range strings.SplitSeq(tt.want, "|") {
				if line != "" {
					want += "pmdacolours: " + line + "\n"
				}
			}
			if got := stderr.String(); code != 1 || got != want+usage {
				t.Errorf("%d, %s\nwant %s%s", code, got, want, usage)
			}
		})
	}
	if files, _ := os.ReadDir("."); len(files) > 0 {
		t.Errorf("files were created: %v", files)
	}

	p.CheckArgs, p.Help = nil, ""
	var stderr testutil.Log
	if code := run(t.Context(), p, []string{"word"}, strings.NewReader(""), new(bytes.Buffer), &stderr); code != 1 ||
		!strings.HasPrefix(stderr.String(), "pmdacolours: unexpected argument 'word'\n") || strings.Contains(stderr.String(), "-h FILE") {
		t.Errorf("argument without CheckArgs: exit code %d, %s", code, &stderr)
	}
}
