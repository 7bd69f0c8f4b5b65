package child

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// Bounds of what a Stderr passes on.
const (
	maxLine    = 1 << 10  // bytes of a line; the rest is cut off
	costUnit   = 128      // bytes that cost as much as a line
	rateLines  = 10       // lines a second that are passed on in the long run
	rateBurst  = 1000     // lines that are passed on at once
	rateResume = 600      // lines that may be passed on at once when some were left out
	tailLines  = 10       // lines that are kept
	tailBytes  = 2 << 10  // bytes of them
	pipeBytes  = 64 << 10 // what a pipe holds (pipe(7))
)

// A Stderr copies what a child writes to its standard error output, line by
// line and as it is, to a log, and remembers the last lines.
//
// It always reads, so the child is not held up. A child that writes without end
// gets 1000 lines into the log, and then 600 a minute; a line says how many were
// left out. From then on it is read no faster than 6 MB a second, so that it
// does not take a processor of ours.
//
// One goroutine, started by NewStderr, reads. It ends when nobody has the other
// end of the pipe any more, or by Close.
type Stderr struct {
	r, w *os.File
	log  io.Writer
	done chan struct{} // closed when there is no more to come

	// Of the goroutine.
	line        []byte // begun
	truncated   bool   // the rest of it is left out
	out         []byte // for log
	tokens      float64
	tokensAt    time.Time // when tokens was right
	dropping    bool      // lines are left out
	dropped     int       // lines left out that the log does not tell of
	reportDelay time.Duration

	mu       sync.Mutex // guards the following
	tail     []string
	tailSize int // of last, in bytes
}

// NewStderr returns a Stderr that writes to log, whole lines at a time.
func NewStderr(log io.Writer) (*Stderr, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return newStderr(r, w, log, reportTime), nil
}

func newStderr(r, w *os.File, log io.Writer, quiet time.Duration) *Stderr {
	s := &Stderr{r: r, w: w, log: log, done: make(chan struct{}), tokens: rateBurst, tokensAt: time.Now(), reportDelay: quiet}
	go s.run()
	return s
}

// File is for the child, see [Spec].
func (s *Stderr) File() *os.File { return s.w }

// Started says that the child has File, or that there will be none.
func (s *Stderr) Started() { s.w.Close() }

// Tail returns the last lines, at most 10 and of 2 KiB, the oldest first.
func (s *Stderr) Tail() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tail)
}

// Close ends the reading. The child has ended; what it wrote is waited for, but
// not for long: what it has started may have the pipe still.
func (s *Stderr) Close() {
	s.Started()
	t := time.NewTimer(closeTime)
	defer t.Stop()
	select {
	case <-s.done:
	case <-t.C:
		s.r.Close()
		<-s.done
	}
}

const (
	closeTime  = 100 * time.Millisecond
	floodTime  = 10 * time.Millisecond // between two reads when something is left out
	reportTime = 10 * time.Second      // without a line, and the log is told what was left out
)

// run reads until the end.
func (s *Stderr) run() {
	defer close(s.done)
	defer s.r.Close()
	b := make([]byte, 4<<10)
	for {
		flood := s.dropping || s.truncated
		if flood && len(b) < pipeBytes {
			b = make([]byte, pipeBytes)
		}
		// Lines that were left out are told of also if no more come.
		var until time.Time
		if s.dropped > 0 {
			until = time.Now().Add(s.reportDelay)
		}
		if s.r.SetReadDeadline(until) != nil {
			break
		}
		n, err := s.r.Read(b)
		s.splitLines(b[:n])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			s.reportDropped()
		case err != nil:
			if len(s.line) > 0 {
				s.splitLines([]byte{'\n'})
			}
			s.reportDropped()
			s.flush()
			return
		}
		s.flush()
		if flood {
			<-time.After(floodTime)
		}
	}
}

// splitLines goes through what was read.
func (s *Stderr) splitLines(b []byte) {
	for len(b) > 0 {
		part, rest, whole := bytes.Cut(b, []byte{'\n'})
		b = rest
		if room := maxLine - len(s.line); len(part) > room {
			part, s.truncated = part[:room], true
		}
		s.line = append(s.line, part...)
		if !whole {
			return
		}
		if s.truncated {
			s.line = append(s.line, " ..."...)
		}
		s.logLine(s.line)
		s.line, s.truncated = s.line[:0], false
	}
}

// logLine has a line go to the log, unless there are too many.
func (s *Stderr) logLine(line []byte) {
	s.remember(string(line))
	now := time.Now()
	s.tokens = min(rateBurst, s.tokens+rateLines*now.Sub(s.tokensAt).Seconds())
	s.tokensAt = now
	cost := 1 + float64(len(line)/costUnit)
	need := cost
	if s.dropping { // not a line here and a line there
		need = rateResume
	}
	if s.dropping = s.tokens < need; s.dropping {
		s.dropped++
		return
	}
	s.reportDropped()
	s.tokens -= cost
	s.out = append(append(s.out, line...), '\n')
}

// reportDropped says how many lines were left out.
func (s *Stderr) reportDropped() {
	if s.dropped > 0 {
		s.out = fmt.Appendf(s.out, "%d lines dropped\n", s.dropped)
		s.dropped = 0
	}
}

// flush writes to the log. If that fails there is nobody to tell.
func (s *Stderr) flush() {
	if len(s.out) > 0 {
		s.log.Write(s.out)
		s.out = s.out[:0]
	}
}

func (s *Stderr) remember(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail = append(s.tail, line)
	s.tailSize += len(line)
	for len(s.tail) > tailLines || s.tailSize > tailBytes {
		s.tailSize -= len(s.tail[0])
		s.tail = slices.Delete(s.tail, 0, 1)
	}
}
