// Package logtest has a log for tests of the daemon, which keeps entries.
package logtest

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"github.com/gopcp/pmcd/internal/logtext"
)

// An Entry is an entry of a Log.
type Entry struct {
	Level   slog.Level
	Message string // the text, with values
	Bare    bool   // without time and severity
	Fields  map[string]any
}

// A Log keeps entries. Its methods may be called by several goroutines at a time.
type Log struct {
	mu      sync.Mutex // guards entries
	entries []Entry
}

// NewLog returns a Log and a logger that writes to it.
func NewLog() (*slog.Logger, *Log) {
	l := new(Log)
	return slog.New(handler{write: l.add}), l
}

func (l *Log) add(e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
}

// All returns the entries.
func (l *Log) All() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Entry(nil), l.entries...)
}

// TakeAll returns the entries and forgets them.
func (l *Log) TakeAll() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.entries
	l.entries = nil
	return all
}

// Len returns the number of entries.
func (l *Log) Len() int { return len(l.All()) }

// With returns the entries that contain a text.
func (l *Log) With(text string) (list []Entry) {
	for _, e := range l.All() {
		if strings.Contains(e.Message, text) {
			list = append(list, e)
		}
	}
	return list
}

// Exactly returns the number of entries with exactly this text.
func (l *Log) Exactly(text string) (n int) {
	for _, e := range l.All() {
		if e.Message == text {
			n++
		}
	}
	return n
}

// OnLog returns a logger that calls f before each entry is written to log.
func OnLog(log *slog.Logger, f func(Entry)) *slog.Logger {
	return slog.New(handler{write: f, next: log.Handler()})
}

// A handler calls write with each entry that is at least an Info.
type handler struct {
	write func(Entry)
	next  slog.Handler // may be nil
	scope logtext.Scope
}

func (h handler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	e := Entry{Level: r.Level, Fields: make(map[string]any)}
	attrs := h.scope.Attrs(r)
	text, _ := logtext.Append(nil, r.Message, attrs)
	e.Message = string(text)
	for _, a := range attrs {
		if logtext.IsBare(a) {
			e.Bare = true
		} else {
			e.Fields[a.Key] = a.Value.Any()
		}
	}
	h.write(e)
	if h.next == nil {
		return nil
	}
	return h.next.Handle(ctx, r)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.scope = h.scope.WithAttrs(attrs)
	if h.next != nil {
		h.next = h.next.WithAttrs(attrs)
	}
	return h
}

func (h handler) WithGroup(name string) slog.Handler {
	h.scope = h.scope.WithGroup(name)
	if h.next != nil {
		h.next = h.next.WithGroup(name)
	}
	return h
}
