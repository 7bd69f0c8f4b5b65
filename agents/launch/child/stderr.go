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
	maxLine   = 1 << 10  // bytes of a line; the rest is cut off
	costUnit  = 128      // bytes that cost as much as a line
	rateLines = 10       // lines a second that are passed on in the long run
	rateBurst = 1000     // lines that are passed on at once
	rateAgain = 600      // lines that may be passed on at once when some were left out
	lastLines = 10       // lines that are kept
	lastBytes = 2 << 10  // bytes of them
	pipeBytes = 64 << 10 // what a pipe holds (pipe(7))
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
	line    []byte // begun
	cut     bool   // the rest of it is left out
	out     []byte // for log
	tokens  float64
	filled  time.Time // when tokens was right
	full    bool      // lines are left out
	dropped int       // lines left out that the log does not tell of
	quiet   time.Duration

	mu   sync.Mutex // guards the following
	last []string
	size int // of last, in bytes
}

// NewStderr returns a Stderr that writes to log, whole lines at a time.
func NewStderr(log io.Writer) (*Stderr, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return newStderr(r, w, log, quietTime), nil
}

func newStderr(r, w *os.File, log io.Writer, quiet time.Duration) *Stderr {
	s := &Stderr{r: r, w: w, log: log, done: make(chan struct{}), tokens: rateBurst, filled: time.Now(), quiet: quiet}
	go s.run()
	return s
}

// File is for the child, see [Spec].
func (s *Stderr) File() *os.File { return s.w }

// Started says that the child has File, or that there will be none.
func (s *Stderr) Started() { s.w.Close() }

// Last returns the last lines, at most 10 and of 2 KiB, the oldest first.
func (s *Stderr) Last() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.last)
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
	closeTime = 100 * time.Millisecond
	floodTime = 10 * time.Millisecond // between two reads when something is left out
	quietTime = 10 * time.Second      // without a line, and the log is told what was left out
)

// run reads until the end.
func (s *Stderr) run() {
	defer close(s.done)
	defer s.r.Close()
	b := make([]byte, 4<<10)
	for {
		flood := s.full || s.cut
		if flood && len(b) < pipeBytes {
			b = make([]byte, pipeBytes)
		}
		// Lines that were left out are told of also if no more come.
		var until time.Time
		if s.dropped > 0 {
			until = time.Now().Add(s.quiet)
		}
		if s.r.SetReadDeadline(until) != nil {
			break
		}
		n, err := s.r.Read(b)
		s.take(b[:n])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			s.tell()
		case err != nil:
			if len(s.line) > 0 {
				s.take([]byte{'\n'})
			}
			s.tell()
			s.flush()
			return
		}
		s.flush()
		if flood {
			<-time.After(floodTime)
		}
	}
}

// take goes through what was read.
func (s *Stderr) take(b []byte) {
	for len(b) > 0 {
		part, rest, whole := bytes.Cut(b, []byte{'\n'})
		b = rest
		if room := maxLine - len(s.line); len(part) > room {
			part, s.cut = part[:room], true
		}
		s.line = append(s.line, part...)
		if !whole {
			return
		}
		if s.cut {
			s.line = append(s.line, " ..."...)
		}
		s.pass(s.line)
		s.line, s.cut = s.line[:0], false
	}
}

// pass has a line go to the log, unless there are too many.
func (s *Stderr) pass(line []byte) {
	s.remember(string(line))
	now := time.Now()
	s.tokens = min(rateBurst, s.tokens+rateLines*now.Sub(s.filled).Seconds())
	s.filled = now
	cost := 1 + float64(len(line)/costUnit)
	need := cost
	if s.full { // not a line here and a line there
		need = rateAgain
	}
	if s.full = s.tokens < need; s.full {
		s.dropped++
		return
	}
	s.tell()
	s.tokens -= cost
	s.out = append(append(s.out, line...), '\n')
}

// tell says how many lines were left out.
func (s *Stderr) tell() {
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
	s.last = append(s.last, line)
	s.size += len(line)
	for len(s.last) > lastLines || s.size > lastBytes {
		s.size -= len(s.last[0])
		s.last = slices.Delete(s.last, 0, 1)
	}
}
