package serve

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/testutil"
)

// A StandIn has the options of the line, and says which words of it have no effect.
func TestStandIn(t *testing.T) {
	self, err := user.Current()
	if err != nil {
		testutil.Missing(t, err)
	}
	p := program()
	p.Domain = 120
	p.Options = []Option{{Short: 'x', Arg: "X", Set: func(arg string) error {
		if arg != "x" {
			return fmt.Errorf("-x takes x, not %s", arg)
		}
		return nil
	}}}
	for _, tt := range []struct {
		args    string
		ignored string // separated by |
		err     string
		process bool
	}{
		{"", "", "", false},
		{"-d 120 -p -D libpmda -x x", "", "", false},
		{"-d 121 -i 5", "-d 121|-i 5", "", false},
		{"-u path --nosuch -?", "unrecognized option '--nosuch'|-?|-u path", "", false},
		{"-l log", "", "", true},
		{"-l -", "", "", false},
		{"-U " + self.Username, "", "", false},
		{"-U nosuchuser", "", "", true},
		{"-d x", "", "-d requires numeric domain number", false},
		{"-x y", "", "-x takes x, not y", false},
		{"fail sing", "", "unknown failure: sing", false},
	} {
		t.Run(tt.args, func(t *testing.T) {
			in, err := NewStandIn(p, strings.Fields(tt.args))
			switch {
			case err != nil:
				if err.Error() != tt.err {
					t.Errorf("%q: %v, want %q", tt.args, err, tt.err)
				}
				return
			case tt.err != "":
				t.Errorf("%q: no error, want %q", tt.args, tt.err)
				return
			}
			if got := strings.Join(in.Ignored, "|"); got != tt.ignored || in.NeedsProcess() != tt.process {
				t.Errorf("%q: ignored %q, process %v; want %q, %v", tt.args, got, in.NeedsProcess(), tt.ignored, tt.process)
			}
			if in.settings.Domain != 120 {
				t.Errorf("%q: domain %d", tt.args, in.settings.Domain)
			}
		})
	}

	p.CheckArgs = nil
	if in, err := NewStandIn(p, strings.Fields("-Z 5 -d 121")); err != nil || strings.Join(in.Ignored, "|") != "invalid option -- 'Z'|5 -d 121" {
		t.Errorf("arguments: %v, %v", in, err)
	}

	// In this process, the agent logs to the logger that it is given.
	var log bytes.Buffer
	in, err := NewStandIn(program(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := in.New(slog.New(slog.NewTextHandler(&log, nil))); err != nil || a == nil {
		t.Errorf("got %v, %v", a, err)
	}
}

// As a process, it writes to the log of -l.
func TestStandInProcess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "colours.log")
	p, err := child.Start(child.Spec{Argv: []string{"stand-in: colours", "-l", file}, Path: self, Pipes: true, Stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		p.Stop(ctx)
	})
	c := &process{Process: p, log: file, stderr: os.DevNull}
	fetch(t, c.dial(t, nil))
	c.Pipes.Close()
	<-c.Done()
	text := c.text()
	if !strings.HasPrefix(text, "Log for pmdacolours on ") || !strings.Contains(text, "Info: by slog\n") {
		t.Errorf("log: %q", text)
	}
}

// The letter of -U can be that of another option.
func TestUserOption(t *testing.T) {
	p := program()
	p.UserOption = 'M'
	units := ""
	p.Options = append(p.Options, Option{Short: 'U', Arg: "UNITS", Text: "units", Set: setString(&units)})
	s, err := p.settings([]string{"-U", "1,0", "-M", "nobody"})
	if err != nil || s.user != "nobody" || units != "1,0" {
		t.Errorf("got %v, %q", err, units)
	}
}

// A program's options take the place of standard ones with the same letter, and -u can be the
// option for the user.
func TestReplacedOptions(t *testing.T) {
	p := program()
	p.UserOption = 'u'
	debug := false
	p.Options = append(p.Options, Option{Short: 'D', Long: "debug", Text: "debug", Set: func(string) error { debug = true; return nil }})
	s, err := p.settings([]string{"-D", "-u", "nobody", "-l", "x"})
	if err != nil || s.user != "nobody" || s.transport != 0 || !debug || s.log != "x" {
		t.Errorf("got %v, %+v, debug %v", err, s, debug)
	}
	if _, err := p.settings([]string{"--debug", "--unix", "x"}); err == nil {
		t.Error("--unix exists without a letter")
	}
}
