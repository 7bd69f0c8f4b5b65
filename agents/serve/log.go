package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents/logtext"
)

// openLog opens a log file. An old file gets the suffix .prev, as with libpcp since
// 7.0 (pmOpenLog(3)). A device or FIFO is opened as it is, and a symbolic link to
// one is followed if it belongs to root or to the user of this process. A link of
// another user is replaced like a file: the log directory belongs to PCP's user,
// and root must not write to a file that this user has linked.
func openLog(path string) (*os.File, error) {
	flags, stat := os.O_WRONLY|os.O_APPEND|syscall.O_NOFOLLOW, os.Lstat
	if isTrustedLink(path) {
		flags, stat = os.O_WRONLY|os.O_APPEND, os.Stat
	}
	if st, err := stat(path); err != nil || st.Mode().IsRegular() || st.Mode().Type() == fs.ModeSymlink {
		os.Rename(path, path+".prev") // if this fails, the old file is truncated
		flags |= os.O_CREATE | os.O_TRUNC | syscall.O_NOFOLLOW
	}
	f, err := os.OpenFile(path, flags, 0o666)
	var perr *fs.PathError
	if errors.As(err, &perr) {
		err = perr.Err
	}
	return f, err
}

// isTrustedLink reports whether path is a symbolic link of root or of the user of
// this process.
func isTrustedLink(path string) bool {
	fi, err := os.Lstat(path)
	if err != nil || fi.Mode().Type() != fs.ModeSymlink {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}

func logHeader(w io.Writer, name string) {
	host, _ := os.Hostname()
	fmt.Fprintf(w, "Log for %s on %s started %s\n\n", name, host, time.Now().Format(logTime))
}

func logTrailer(w io.Writer) {
	fmt.Fprintf(w, "\nLog finished %s\n", time.Now().Format(logTime))
}

const (
	logTime     = "Mon Jan _2 15:04:05 2006" // ctime(3)
	messageTime = "Mon Jan _2 15:04:05"
)

// levelCritical is above slog's levels. It is for errors that keep the agent from
// starting.
const levelCritical = slog.LevelError + 4

// A Handler is a slog.Handler that writes messages in the format of PCP's programs
// (pmNotifyErr(3)):
//
//	[Sat Nov 21 13:00:00] pmdasimple(4321) Info: text key=value
//
// The words for slog's levels are Debug, Info, Warning and Error. A higher level
// is Critical. The text may have several lines. Package logtext describes how a message
// can name attributes.
type Handler struct {
	level slog.Leveler
	name  string
	mu    *sync.Mutex // serializes writes to w; shared with Handlers derived from this one
	w     io.Writer
	scope logtext.Scope
}

// NewHandler returns a Handler for the program name. It writes each message with
// one call of w.Write and drops messages below level.
func NewHandler(w io.Writer, name string, level slog.Leveler) *Handler {
	return &Handler{level: level, name: name, mu: new(sync.Mutex), w: w}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

// Handle implements slog.Handler.
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	t := r.Time
	if t.IsZero() {
		t = time.Now()
	}
	b := fmt.Appendf(nil, "[%s] %s(%d) %s: ", t.Format(messageTime), h.name, os.Getpid(), levelName(r.Level))
	b, _ = logtext.Append(b, strings.TrimRight(r.Message, "\n"), h.scope.Attrs(r))
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.w.Write(append(b, '\n'))
	return err
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.scope = h.scope.WithAttrs(attrs)
	return &with
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	with := *h
	with.scope = h.scope.WithGroup(name)
	return &with
}

func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelInfo:
		return "Debug"
	case l < slog.LevelWarn:
		return "Info"
	case l < slog.LevelError:
		return "Warning"
	case l < levelCritical:
		return "Error"
	}
	return "Critical"
}
