package daemon

import (
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"
)

// A rate keeps what clients and agents can cause again and again to one line a
// minute. The first is logged at once; how many like it came after is said with
// the next one, or when the minute is over.
type rate struct {
	mu   sync.Mutex // guards the following
	last map[string]*rated
}

// A rated is a line of the log and what became of those like it.
type rated struct {
	level zapcore.Level
	since time.Time
	text  string
	more  int // not logged
}

const (
	rateTime = time.Minute
	// rateKeys is how many kinds of lines are told apart: names that others
	// give are part of kinds. More of them in a minute are one kind.
	rateKeys = 1000
)

// printf logs a warning, unless one with the same key was logged in the last
// minute.
func (r *rate) printf(d *Daemon, key, format string, args ...any) {
	r.log(d, zapcore.WarnLevel, key, format, args...)
}

// log is printf for a line of any level.
func (r *rate) log(d *Daemon, level zapcore.Level, key, format string, args ...any) {
	if e := r.first(level, key, format, args...); e != nil {
		d.log.Log(level, e.text)
	}
}

// first returns the line to log, if it is to be logged.
func (r *rate) first(level zapcore.Level, key, format string, args ...any) *rated {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = make(map[string]*rated)
	}
	if r.last[key] == nil && len(r.last) >= rateKeys {
		key = "others"
	}
	now, was := time.Now(), r.last[key]
	if was != nil && now.Sub(was.since) < rateTime {
		was.more++
		return nil
	}
	e := &rated{level: level, since: now, text: fmt.Sprintf(format, args...)}
	r.last[key] = e
	if was != nil && was.more > 0 {
		return &rated{text: e.text + was.rest(now)}
	}
	return e
}

// pass reports whether something that is no line may be logged, which nobody
// needs to hear of that was left out.
func (r *rate) pass(key string) bool { return r.first(zapcore.InvalidLevel, key, "") != nil }

// rest is what to say of lines that were not logged.
func (e *rated) rest(now time.Time) string {
	return fmt.Sprintf(" (%d more like it in %v)", e.more, now.Sub(e.since).Round(time.Second))
}

// flush says what was not logged in the minutes that are over or, at the end of
// all, so far.
func (r *rate) flush(d *Daemon, all bool) {
	for _, e := range r.due(time.Now(), all) {
		d.log.Log(e.level, e.text)
	}
}

// due returns the lines that flush logs. Each begins another minute.
func (r *rate) due(now time.Time, all bool) (lines []rated) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, e := range r.last {
		switch {
		case !all && now.Sub(e.since) < rateTime:
		case e.more == 0, e.level == zapcore.InvalidLevel:
			delete(r.last, key)
		default:
			lines = append(lines, rated{level: e.level, text: e.text + e.rest(now)})
			e.since, e.more = now, 0
		}
	}
	return lines
}
