package serve

import (
	"io"
	"log/slog"

	"github.com/gopcp/pmcd/internal/logtext"
)

// levelCritical is for errors that keep the agent from starting.
const levelCritical = logtext.LevelCritical

// NewHandler returns a slog.Handler for the program name that writes messages in the format
// of PCP's programs (pmNotifyErr(3)):
//
//	[Sat Nov 21 13:00:00] pmdasimple(4321) Info: text key=value
//
// The words for slog's levels are Debug, Info, Warning and Error. A higher level is Critical.
// The text may have several lines. The package comment describes how a message can name
// attributes. The Handler writes each message with one call of w.Write and drops messages
// below level.
func NewHandler(w io.Writer, name string, level slog.Leveler) slog.Handler {
	return logtext.NewHandler(w, name, level)
}
