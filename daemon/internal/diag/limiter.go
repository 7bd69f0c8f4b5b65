package diag

import (
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// A LogLimiter keeps what clients and agents can cause again and again to one
// line a minute. It logs the first line with a key at once. How many lines with
// that key followed is said with the next one, or when the minute is over.
type LogLimiter struct {
	log *zap.Logger

	mu    sync.Mutex // guards the following, as any goroutine may log
	lines map[string]*limitedLine
}

// A limitedLine is a line of the log, and how many with the same key followed.
type limitedLine struct {
	level      zapcore.Level
	since      time.Time
	text       string
	suppressed int // lines that were not logged
}

// LimitInterval is how long a line keeps others with its key out of the log.
const LimitInterval = time.Minute

// maxKeys is how many kinds of lines are told apart. Names that clients and
// agents choose are part of keys, so memory would grow with them otherwise. More
// kinds in a minute share one key.
const maxKeys = 1000

// NewLogLimiter returns a LogLimiter that logs to log.
func NewLogLimiter(log *zap.Logger) *LogLimiter {
	return &LogLimiter{log: log, lines: make(map[string]*limitedLine)}
}

// Printf logs a warning, unless a line with the same key was logged in the last
// minute.
func (l *LogLimiter) Printf(key, format string, args ...any) {
	l.Log(zapcore.WarnLevel, key, format, args...)
}

// Log is Printf for a line of any level.
func (l *LogLimiter) Log(level zapcore.Level, key, format string, args ...any) {
	if e := l.add(level, key, format, args...); e != nil {
		l.log.Log(level, e.text)
	}
}

// Allow reports whether something that is not a line may be logged. What was left
// out is not counted.
func (l *LogLimiter) Allow(key string) bool { return l.add(zapcore.InvalidLevel, key, "") != nil }

// add returns the line to log, or nil if there was one in the last minute.
func (l *LogLimiter) add(level zapcore.Level, key, format string, args ...any) *limitedLine {
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
	e := &limitedLine{level: level, since: now, text: fmt.Sprintf(format, args...)}
	l.lines[key] = e
	if was != nil && was.suppressed > 0 {
		return &limitedLine{text: e.text + was.rest(now)}
	}
	return e
}

// rest is what the log says of lines that were not logged.
func (e *limitedLine) rest(now time.Time) string {
	return fmt.Sprintf(" (%d more like it in %v)", e.suppressed, now.Sub(e.since).Round(time.Second))
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
		l.log.Log(e.level, e.text)
	}
}

// due returns the lines that Flush logs. Each begins another minute.
func (l *LogLimiter) due(now time.Time, all bool) (lines []limitedLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, e := range l.lines {
		switch {
		case !all && now.Sub(e.since) < LimitInterval:
		case e.suppressed == 0, e.level == zapcore.InvalidLevel:
			delete(l.lines, key)
		default:
			lines = append(lines, limitedLine{level: e.level, text: e.text + e.rest(now)})
			e.since, e.suppressed = now, 0
		}
	}
	return lines
}
