package docstest

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/serve"
)

// docs/writing-agents.md shows the text of a message. Package serve writes it, and the
// page has it.
func TestMessagesOfAgents(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(repo, "docs/writing-agents.md"))
	if err != nil {
		t.Fatal(err)
	}
	fault := errors.New("no such file")
	for _, tt := range []struct {
		call string
		log  func(log *slog.Logger, err error)
		text string
	}{
		{`log.Info("all queues are empty")`, func(log *slog.Logger, _ error) { log.Info("all queues are empty") },
			`all queues are empty`},
		{`log.Warn("cannot read a file", "path", "/run/q", "error", err)`,
			func(log *slog.Logger, err error) { log.Warn("cannot read a file", "path", "/run/q", "error", err) },
			`cannot read a file path=/run/q error="no such file"`},
		{`log.Warn("{path} is ignored: {error}", "path", "/run/q", "error", err)`,
			func(log *slog.Logger, err error) {
				log.Warn("{path} is ignored: {error}", "path", "/run/q", "error", err)
			},
			`/run/q is ignored: no such file`},
		{`log.Info("queue {queue:q} is full", "queue", "deep blue", "limit", 5)`,
			func(log *slog.Logger, _ error) {
				log.Info("queue {queue:q} is full", "queue", "deep blue", "limit", 5)
			},
			`queue "deep blue" is full`},
		{`log.Info("no set {1, 2} was found", "limit", 5)`,
			func(log *slog.Logger, _ error) { log.Info("no set {1, 2} was found", "limit", 5) },
			`no set {1, 2} was found limit=5`},
	} {
		t.Run(tt.call, func(t *testing.T) {
			var b bytes.Buffer
			tt.log(slog.New(serve.NewHandler(&b, "pmdauptime", slog.LevelInfo)), fault)
			_, text, _ := strings.Cut(b.String(), ": ") // after the severity
			if text != tt.text+"\n" {
				t.Errorf("got %q, want %q", text, tt.text)
			}
			if row := "| `" + tt.call + "` | `" + tt.text + "` |"; !strings.Contains(string(page), row+"\n") {
				t.Errorf("docs/writing-agents.md does not have the row %s", row)
			}
		})
	}
	if n := strings.Count(string(page), "| `log."); n != 5 {
		t.Errorf("docs/writing-agents.md has %d rows, want those of this test", n)
	}
}
