package logging

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"testing"

	"go.uber.org/zap"
)

// The log has the lines of pmcd.log.
func TestLogFormat(t *testing.T) {
	var b bytes.Buffer
	log := zap.New(NewCore(&b, "text"))
	log.Info("one")
	log.Warn("two\nlines")
	log.Error("three")
	log.Debug("not this")
	log.Named("plain").Info("bare")
	stamp := fmt.Sprintf(`\[\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d\] pmcd\(%d\)`, os.Getpid())
	want := "^" + stamp + " Info: one\n" + stamp + " Warning: two\nlines\n" + stamp + " Error: three\nbare\n$"
	if !regexp.MustCompile(want).MatchString(b.String()) {
		t.Errorf("got %q\nwant %q", b.String(), want)
	}
}
