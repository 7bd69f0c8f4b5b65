package diag

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// A LogLimiter limits lines that clients and agents can cause again and again to one line a
// minute. It logs the first line with a key at once. The next line with that key, or a line
// at the end of the minute, has the number of lines that were not logged. The latter line
// has the text of the last of these.
type LogLimiter struct {
	log *slog.Logger

	mu    sync.Mutex // guards the following, as any goroutine may log
	lines map[string]*limitedLine
}

// A line is a line of the log, as for slog.
type line struct {
	level   slog.Level
	message string // "" for an entry of Allow
	attrs   []any
}

// A limitedLine is the last line with a key, and how many with that key were not logged.
type limitedLine struct {
	line
	at         time.Time
	since      time.Time // when a line with this key was logged
	suppressed int       // lines that were not logged since then
}

// LimitInterval is how long no further line with the same key is logged.
const LimitInterval = time.Minute

// maxKeys is the number of different keys. Further keys in a minute are treated as one. Names
// that clients and agents choose are part of keys, so without a limit memory could grow.
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
	if n, ok := l.add(key, line{level, message, attrs}); ok {
		l.write(n)
	}
}

func (l *LogLimiter) write(n line) {
	l.log.Log(context.Background(), n.level, n.message, n.attrs...)
}

// Allow reports whether something that is not a line may be logged. It counts nothing.
func (l *LogLimiter) Allow(key string) bool {
	_, ok := l.add(key, line{})
	return ok
}

// add returns n as it is to be logged, or false if there was such a line in the last minute.
func (l *LogLimiter) add(key string, n line) (log line, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines[key] == nil && len(l.lines) >= maxKeys {
		key = "others"
	}
	now, was := time.Now(), l.lines[key]
	if was != nil && now.Sub(was.since) < LimitInterval {
		was.line, was.at = n, now
		was.suppressed++
		return line{}, false
	}
	l.lines[key] = &limitedLine{line: n, at: now, since: now}
	if was != nil && was.suppressed > 0 {
		n = was.counted(n, now)
	}
	return n, true
}

// counted returns next with how many lines like e were not logged before it.
func (e *limitedLine) counted(next line, now time.Time) line {
	attrs := slices.Clip(next.attrs)
	attrs = append(attrs, "suppressed", e.suppressed, "interval", now.Sub(e.since).Round(time.Second))
	return line{next.level, next.message + " ({suppressed} more like it in {interval})", attrs}
}

// summary returns a line that says how many lines like e were not logged, with the text of
// the last of them. It says when that was, because the text may have times.
func (e *limitedLine) summary(now time.Time) line {
	message := "{suppressed} lines like this were left out in {interval}; the last one, {ago} ago: "
	if e.suppressed == 1 {
		message = "{suppressed} line like this was left out in {interval}; it was {ago} ago: "
	}
	attrs := slices.Clip(e.attrs)
	attrs = append(attrs, "suppressed", e.suppressed, "interval", now.Sub(e.since).Round(time.Second), "ago", now.Sub(e.at).Round(time.Second))
	return line{e.level, message + e.message, attrs}
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
	for _, n := range l.due(time.Now(), all) {
		l.write(n)
	}
}

// due returns the lines that Flush logs. Each begins another minute.
func (l *LogLimiter) due(now time.Time, all bool) (lines []line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, e := range l.lines {
		switch {
		case !all && now.Sub(e.since) < LimitInterval:
		case e.suppressed == 0, e.message == "":
			delete(l.lines, key)
		default:
			lines = append(lines, e.summary(now))
			e.since, e.suppressed = now, 0
		}
	}
	return lines
}
