package logtext_test

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/gopcp/pmcd/internal/logtext"
)

func ExampleAppend() {
	r := slog.NewRecord(time.Time{}, slog.LevelInfo, "agent {agent:q} (dom {domain}) is {state}", 0)
	r.Add("agent", "simple", "domain", 253, "state", "late", "client", 4)
	text, _ := logtext.Append(nil, r.Message, logtext.Scope{}.Attrs(r))
	fmt.Printf("%s\n", text)
	// Output: agent "simple" (dom 253) is late
}
