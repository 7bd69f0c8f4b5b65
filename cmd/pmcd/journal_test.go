package main

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
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
)

// Messages for the journal have a priority and no time; a log that -l names
// is as ever.
func TestJournal(t *testing.T) {
	for _, tt := range []struct {
		args    []string
		stream  bool // JOURNAL_STREAM names the standard error output
		journal bool
		file    string
	}{
		{[]string{"-F"}, true, true, ""},
		{[]string{"-f", "-l", "-"}, true, true, ""},
		{[]string{"-F", "-l", "my.log"}, true, false, "my.log"},
		{[]string{"-F"}, false, false, "pmcd.log"},
	} {
		t.Run(fmt.Sprint(tt.args, tt.stream), func(t *testing.T) {
			s := pmcdtest.NewService(t, tt.args...)
			out, err := os.OpenFile(s.Path("journal"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			s.Cmd.Stderr = out
			stream := "1:1"
			if tt.stream {
				var st syscall.Stat_t
				if err := syscall.Fstat(int(out.Fd()), &st); err != nil {
					t.Fatal(err)
				}
				stream = fmt.Sprintf("%d:%d", st.Dev, st.Ino)
			}
			s.Cmd.Env = append(s.Cmd.Env, "JOURNAL_STREAM="+stream)
			s.Start()
			s.Greets(s.Path("sock"))
			s.OpenGate()
			started := func() bool {
				text := s.Read("journal")
				return strings.Contains(text, "cannot start") && strings.Contains(text, "request port(s)")
			}
			if tt.journal && !peer.Until(peer.Hangs, started) {
				t.Error("the agent that ends is not in the journal, or the ports are not")
			}
			s.Stop()
			text := s.Read("journal")
			if tt.journal {
				for line := range strings.Lines(text) {
					if !regexp.MustCompile(`^<[346]>.`).MatchString(line) {
						t.Errorf("line without a priority: %q", line)
					}
				}
				for _, want := range []string{"<3>cannot start \"shy\" agent", "<6>pmcd request port(s):\n<6>  sts", "<6>pmcd caught SIGTERM", "<6>pmcd Shutdown\n"} {
					if !strings.Contains(text, want) {
						t.Errorf("no %q in:\n%s", want, text)
					}
				}
			}
			logs, _ := filepath.Glob(s.Path("*.log"))
			if tt.file == "" && len(logs) != 0 || tt.file != "" && !slices.Equal(logs, []string{s.Path(tt.file)}) {
				t.Errorf("log files %q", logs)
			}
		})
	}
}
