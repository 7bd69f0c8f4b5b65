package logging

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"testing"

	"github.com/gopcp/pmcd/internal/logtext"
)

// The log has the lines of pmcd.log.
func TestLogFormat(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(NewHandler(NewCore(&b, "text")))
	log.Info("one")
	log.Warn("two\nlines")
	log.Error("{n}", "n", "three", "agent", "simple")
	log.Log(t.Context(), logtext.LevelAlert, "four")
	log.Debug("not this")
	log.With(logtext.Bare()).Info("bare {host}", "host", "h", "client", 1)
	stamp := fmt.Sprintf(`\[\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d\] pmcd\(%d\)`, os.Getpid())
	want := "^" + stamp + " Info: one\n" + stamp + " Warning: two\nlines\n" + stamp + " Error: three\n" + stamp + " Alert: four\nbare h\n$"
	if !regexp.MustCompile(want).MatchString(b.String()) {
		t.Errorf("got %q\nwant %q", b.String(), want)
	}
}
