package logging

import (
	"bytes"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/internal/testutil"
)

// logLines logs entries of all kinds.
func logLines(core *journalCore) {
	log := slog.New(NewHandler(core))
	log.Info("one")
	log.Warn("\n\ntwo\n\nlines\n")
	log.Error("three\n<0>four {domain}", "agent.name", "a\nb", "domain", 253, "tail", []string{"x", "y"})
	log.Debug("not this")
	log.Error("\n \n")
	log.With(logtext.Bare()).Info("  bare", "pid", 1.5)
}

// Without the socket, lines have a priority.
func TestJournalStream(t *testing.T) {
	for _, socket := range []string{"", filepath.Join(t.TempDir(), "none")} {
		var b bytes.Buffer
		logLines(newJournalCore(&b, socket))
		want := "<6>one\n<4>two\n<4>lines\n<3>three\n<3><0>four 253\n<6>  bare pid=1.5\n"
		if b.String() != want {
			t.Errorf("got %q\nwant %q", b.String(), want)
		}
	}
	for _, stream := range []string{"", "1:1", "x"} {
		if isJournal(stream, 2) {
			t.Errorf("%q is the standard error output", stream)
		}
	}
}

// With the socket, entries have fields. What is not taken there goes to the stream.
func TestJournalFields(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	journal, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	var b bytes.Buffer
	core := newJournalCore(&b, path)
	logLines(core)
	if b.Len() > 0 {
		t.Errorf("the stream has %q", b.String())
	}
	for _, want := range []string{
		"MESSAGE=one\nPRIORITY=6\nSYSLOG_IDENTIFIER=pmcd\n",
		"MESSAGE\n\x09\x00\x00\x00\x00\x00\x00\x00two\nlines\nPRIORITY=4\nSYSLOG_IDENTIFIER=pmcd\n",
		"MESSAGE\n\x11\x00\x00\x00\x00\x00\x00\x00three\n<0>four 253\nPRIORITY=3\nSYSLOG_IDENTIFIER=pmcd\n" +
			"PMCD_TEMPLATE\n\x16\x00\x00\x00\x00\x00\x00\x00three\n<0>four {domain}\n" +
			"PMCD_AGENT_NAME\n\x03\x00\x00\x00\x00\x00\x00\x00a\nb\nPMCD_DOMAIN=253\nPMCD_TAIL\n\x03\x00\x00\x00\x00\x00\x00\x00x\ny\n",
		"MESSAGE=  bare pid=1.5\nPRIORITY=6\nSYSLOG_IDENTIFIER=pmcd\nPMCD_ATTR_PID=1.5\n",
	} {
		buf := make([]byte, 4096)
		journal.SetReadDeadline(time.Now().Add(testutil.Hangs))
		n, err := journal.Read(buf)
		if got := string(buf[:n]); err != nil || got != want {
			t.Errorf("got %q, %v\nwant %q", got, err, want)
		}
	}
	journal.Close()
	slog.New(NewHandler(core)).Info("{a}", "a", "alone")
	if got := b.String(); got != "<6>alone\n" {
		t.Errorf("the stream has %q", got)
	}
}

func TestJournalName(t *testing.T) {
	for name, want := range map[string]string{
		"agent": "PMCD_AGENT", "g.a-b": "PMCD_G_A_B", "é": "PMCD__", "": "PMCD_",
		strings.Repeat("x", 100): "PMCD_" + strings.Repeat("X", 59),
	} {
		if got := journalName(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
