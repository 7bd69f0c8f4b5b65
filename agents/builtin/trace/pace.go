package trace

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A pace delays clients that together send more than maxRate PDUs in a second. Each PDU is
// due at a time, and the client that sends it waits until then, so a client that sends little
// waits as long as one PDU of each other client takes. The zero value is ready. It is safe for
// concurrent use.
type pace struct {
	mu  sync.Mutex
	due time.Time // of the next PDU
}

// burst is how long PDUs may be ahead of their time.
const burst = 100 * time.Millisecond

// next returns how long the client waits that has sent a PDU.
func (p *pace) next(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.due.Before(now) {
		p.due = now
	}
	p.due = p.due.Add(time.Second / maxRate)
	if ahead := p.due.Sub(now); ahead > burst {
		return ahead
	}
	return 0
}

// A limiter logs no more than one line a minute, or max if that is set. The zero value is
// ready.
type limiter struct {
	max int

	mu    sync.Mutex
	last  time.Time // when the minute began
	lines int       // in it
	left  int       // lines that were left out since the last one
}

func (l *limiter) log(log *slog.Logger, level slog.Level, message string, attrs ...any) {
	left, ok := l.next()
	if !ok {
		return
	}
	if left > 0 {
		message += "; {suppressed} more lines about clients were left out"
		attrs = append(attrs, "suppressed", left)
	}
	log.Log(context.Background(), level, message, attrs...)
}

// next reports whether a line may be logged now, and how many were left out before it.
func (l *limiter) next() (left int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.last.IsZero() || now.Sub(l.last) >= time.Minute {
		l.last, l.lines = now, 0
	}
	if l.lines >= max(l.max, 1) {
		l.left++
		return 0, false
	}
	l.lines++
	left, l.left = l.left, 0
	return left, true
}
