package logging

import (
	"bytes"
	"testing"

	"go.uber.org/zap"
)

func TestJournalFormat(t *testing.T) {
	var b bytes.Buffer
	log := zap.New(NewJournalCore(&b))
	log.Info("one")
	log.Warn("\n\ntwo\nlines\n")
	log.Error("three\n<0>four")
	log.Debug("not this")
	log.Named("plain").Info("  bare")
	want := "<6>one\n<4>two\n<4>lines\n<3>three\n<3><0>four\n<6>  bare\n"
	if b.String() != want {
		t.Errorf("got %q\nwant %q", b.String(), want)
	}
	for _, stream := range []string{"", "1:1", "x"} {
		if isJournal(stream, 2) {
			t.Errorf("%q is the standard error output", stream)
		}
	}
}
