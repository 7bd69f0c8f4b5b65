package logging

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"
)

// A queue is a core that writes to another one, on a goroutine of its own. A log that is a FIFO
// or a pipe blocks while nothing reads it, as the journal can, and pmcd goes on without it:
// Write waits until the entry is written, so that a crash loses none, but for patience at most.
// When it has waited in vain, no Write waits until the queue has been empty. What is more than
// maxQueued is lost, and a line says how much that was.
//
// What the other core cannot write, as on a full disk, goes to the spare one.
type queue struct {
	zapcore.Core
	patience time.Duration
	spare    zapcore.Core // may be nil

	mu      sync.Mutex // guards the following, which any goroutine may log to
	waiting []queuedEntry
	size    int           // of waiting, in bytes
	lost    int           // number of entries
	stalled bool          // an entry was not written within patience, and waiting was never empty since
	ended   chan struct{} // is closed when the goroutine ends; nil if there is none
	err     error         // of the last entry that was written to Core, or could not be
	changed func()        // called when err has become nil or not nil; may be nil
}

type queuedEntry struct {
	zapcore.Entry
	fields  []zapcore.Field
	written chan struct{} // is closed then
}

const (
	patience  = 100 * time.Millisecond
	maxQueued = 1 << 20 // bytes
)

func newQueue(core zapcore.Core) *queue { return &queue{Core: core, patience: patience} }

// Check implements zapcore.Core.
func (q *queue) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if q.Enabled(e.Level) {
		return ce.AddCore(e, q)
	}
	return ce
}

// Write implements zapcore.Core.
func (q *queue) Write(e zapcore.Entry, fields []zapcore.Field) error {
	written, stalled := q.add(e, fields)
	if stalled {
		return nil
	}
	timer := time.NewTimer(q.patience)
	defer timer.Stop()
	select {
	case <-written:
	case <-timer.C:
		q.mu.Lock()
		defer q.mu.Unlock()
		q.stalled = q.ended != nil
	}
	return nil
}

// add adds an entry. Stalled reports that it must not be waited for.
func (q *queue) add(e zapcore.Entry, fields []zapcore.Field) (written <-chan struct{}, stalled bool) {
	n := queuedEntry{e, fields, make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 && q.size+n.size() > maxQueued {
		q.lost++
		return nil, true
	}
	q.waiting = append(q.waiting, n)
	q.size += n.size()
	if q.ended == nil {
		q.ended = make(chan struct{})
		go q.run(q.ended)
	}
	return n.written, q.stalled
}

// size returns about how many bytes e takes.
func (e *queuedEntry) size() int {
	n := 200 + len(e.Message)
	for _, f := range e.fields {
		n += 100 + len(f.String)
		if list, ok := f.Interface.(stringList); ok {
			for _, s := range list {
				n += len(s)
			}
		}
	}
	return n
}

// run writes what is waiting.
func (q *queue) run(ended chan struct{}) {
	defer close(ended)
	for {
		e, ok := q.next()
		if !ok {
			return
		}
		q.write(e)
		close(e.written)
	}
}

// write writes one entry.
func (q *queue) write(e queuedEntry) {
	err := q.Core.Write(e.Entry, e.fields)
	q.mu.Lock()
	first := err != nil && q.err == nil
	changed := q.changed
	if !first && (err != nil || q.err == nil) {
		changed = nil
	}
	q.err = err
	q.mu.Unlock()
	if err != nil && q.spare != nil { // an error there could not be logged either
		if first {
			about := zapcore.Entry{Level: zapcore.ErrorLevel, Time: e.Time, Message: fmt.Sprintf("cannot write to the log: %v; %s", err, q.instead())}
			_ = q.spare.Write(about, []zapcore.Field{stringField(eventKey, "log_not_written")})
		}
		_ = q.spare.Write(e.Entry, e.fields)
	}
	if changed != nil {
		changed()
	}
}

// instead says where entries are that Core could not write.
func (q *queue) instead() string {
	switch q.spare.(type) {
	case nil:
		return "its lines are lost"
	case *journalCore:
		return "its lines go to the journal"
	}
	return "its lines go to the standard error output"
}

// next returns the next entry, or false if there is none and the goroutine ends.
func (q *queue) next() (e queuedEntry, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case len(q.waiting) > 0:
		e = q.waiting[0]
		q.waiting = slices.Delete(q.waiting, 0, 1)
		q.size -= e.size()
		return e, true
	case q.lost > 0:
		e.Level, e.Time, e.written = zapcore.WarnLevel, time.Now(), make(chan struct{})
		e.Message = fmt.Sprintf("%d entries of the log are lost, because it was not read", q.lost)
		e.fields = []zapcore.Field{stringField(eventKey, "log_lost"), intField("count", int64(q.lost))}
		q.lost = 0
		return e, true
	}
	q.stalled, q.ended = false, nil
	return e, false
}

// flush waits until all is written, but for a while only.
func (q *queue) flush(limit time.Duration) {
	q.mu.Lock()
	ended := q.ended
	q.mu.Unlock()
	if ended == nil {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}
