package diag

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// A LogLimiter keeps what clients and agents can cause again and again to one
// line a minute. It logs the first line with a key at once. How many lines with
// that key followed is said with the next one, or when the minute is over.
type LogLimiter struct {
	log *slog.Logger

	mu    sync.Mutex // guards the following, as any goroutine may log
	lines map[string]*limitedLine
}

// A limitedLine is a line of the log, and how many with the same key followed.
type limitedLine struct {
	level      slog.Level
	since      time.Time
	message    string // as for slog; "" for what is not a line
	attrs      []any
	suppressed int // lines that were not logged
}

// LimitInterval is how long a line keeps others with its key out of the log.
const LimitInterval = time.Minute

// maxKeys is how many kinds of lines are told apart. Names that clients and
// agents choose are part of keys, so memory would grow with them otherwise. More
// kinds in a minute share one key.
const maxKeys = 1000

// NewLogLimiter returns a LogLimiter that logs to log.
func NewLogLimiter(log *slog.Logger) *LogLimiter {
	return &LogLimiter{log: log, lines: make(map[string]*limitedLine)}
}

// Warn logs a warning, unless a line with the same key was logged in the last
// minute. Message and attrs are as for a [slog.Logger]; values must not change.
func (l *LogLimiter) Warn(key, message string, attrs ...any) {
	l.Log(slog.LevelWarn, key, message, attrs...)
}

// Log is Warn for a line of any level.
func (l *LogLimiter) Log(level slog.Level, key, message string, attrs ...any) {
	if e := l.add(level, key, message, attrs); e != nil {
		l.write(e)
	}
}

func (l *LogLimiter) write(e *limitedLine) {
	l.log.Log(context.Background(), e.level, e.message, e.attrs...)
}

// Allow reports whether something that is not a line may be logged. What was left
// out is not counted.
func (l *LogLimiter) Allow(key string) bool { return l.add(slog.LevelInfo, key, "", nil) != nil }

// add returns the line to log, or nil if there was one in the last minute.
func (l *LogLimiter) add(level slog.Level, key, message string, attrs []any) *limitedLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines[key] == nil && len(l.lines) >= maxKeys {
		key = "others"
	}
	now, was := time.Now(), l.lines[key]
	if was != nil && now.Sub(was.since) < LimitInterval {
		was.suppressed++
		return nil
	}
	e := &limitedLine{level: level, since: now, message: message, attrs: attrs}
	l.lines[key] = e
	if was != nil && was.suppressed > 0 {
		return was.counted(e, now)
	}
	return e
}

// counted returns next with how many lines like e were not logged since e was.
func (e *limitedLine) counted(next *limitedLine, now time.Time) *limitedLine {
	attrs := slices.Clip(next.attrs)
	attrs = append(attrs, "suppressed", e.suppressed, "interval", now.Sub(e.since).Round(time.Second))
	return &limitedLine{level: next.level, message: next.message + " ({suppressed} more like it in {interval})", attrs: attrs}
}

// Suppressed returns how many lines with a key were not logged since the last
// that was.
func (l *LogLimiter) Suppressed(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.lines[key]; e != nil {
		return e.suppressed
	}
	return 0
}

// Flush logs how many lines were not logged in the minutes that are over, or, if
// all is set, so far.
func (l *LogLimiter) Flush(all bool) {
	for _, e := range l.due(time.Now(), all) {
		l.write(e)
	}
}

// due returns the lines that Flush logs. Each begins another minute.
func (l *LogLimiter) due(now time.Time, all bool) (lines []*limitedLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, e := range l.lines {
		switch {
		case !all && now.Sub(e.since) < LimitInterval:
		case e.suppressed == 0, e.message == "":
			delete(l.lines, key)
		default:
			lines = append(lines, e.counted(e, now))
			e.since, e.suppressed = now, 0
		}
	}
	return lines
}
