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

// Limits of what a Stderr logs: a token bucket of lines.
const (
	maxLine    = 1 << 10  // bytes of a line; the rest is cut off
	costUnit   = 128      // each so many bytes of a line cost one more token
	rateLines  = 10       // tokens that are added a second
	rateBurst  = 1000     // most tokens
	rateResume = 600      // tokens needed to log lines again after lines were dropped
	tailLines  = 10       // most lines that Tail returns
	tailBytes  = 2 << 10  // most bytes of them
	pipeBytes  = 64 << 10 // capacity of a pipe (pipe(7))
)

// A Stderr copies the standard error output of a child to a log, line by line and
// unchanged, and keeps the last lines. The log has to say whose they are.
//
// It always reads, so that the child is not blocked. Of a child that writes
// without end it logs 1000 lines, and then 600 a minute; a line says how many
// lines were dropped. While it drops lines it reads no more than 6 MB a second,
// so that the child cannot make it use a whole CPU.
//
// One goroutine, started by NewStderr, reads. It ends when all other ends of the
// pipe are closed, or by Close.
type Stderr struct {
	r, w *os.File
	log  io.Writer
	done chan struct{} // closed when the goroutine has ended

	// Used by the goroutine only.
	line        []byte // the line that has not ended yet
	truncated   bool   // line has maxLine bytes, and the rest is cut off
	out         []byte // to be written to log
	tokens      float64
	tokensAt    time.Time // when tokens was computed
	dropping    bool      // lines are being dropped
	dropped     int       // dropped lines that were not reported yet
	reportDelay time.Duration

	mu       sync.Mutex // guards the following
	tail     []string
	tailSize int // bytes in tail
}

// NewStderr returns a Stderr that writes to log. Each Write is of whole lines.
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

// File returns the end of the pipe for [Spec].Stderr.
func (s *Stderr) File() *os.File { return s.w }

// Started closes File in this process. It must be called when the child has been
// started, or could not be.
func (s *Stderr) Started() { s.w.Close() }

// Tail returns the last lines, oldest first: at most 10 lines and 2 KiB.
func (s *Stderr) Tail() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tail)
}

// Close ends the copying. It is called when the child has ended, and waits for
// the rest of its output. It does not wait for long: a process that the child
// has started may still have the pipe open.
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
	floodTime  = 10 * time.Millisecond // between two reads while lines are dropped
	reportTime = 10 * time.Second      // without output until dropped lines are reported
)

// run is the goroutine of s.
func (s *Stderr) run() {
	defer close(s.done)
	defer s.r.Close()
	b := make([]byte, 4<<10)
	for {
		flood := s.dropping || s.truncated
		if flood && len(b) < pipeBytes {
			b = make([]byte, pipeBytes)
		}
		// Dropped lines are reported even if the child writes nothing more.
		var until time.Time
		if s.dropped > 0 {
			until = time.Now().Add(s.reportDelay)
		}
		n, err := 0, s.r.SetReadDeadline(until) // an error if Close has closed r
		if err == nil {
			n, err = s.r.Read(b)
		}
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

// splitLines logs the lines in b. What follows the last newline is kept for the
// next call.
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

// logLine adds a line to out and to tail. If the rate is too high it drops the
// line from the log.
func (s *Stderr) logLine(line []byte) {
	s.remember(string(line))
	now := time.Now()
	s.tokens = min(rateBurst, s.tokens+rateLines*now.Sub(s.tokensAt).Seconds())
	s.tokensAt = now
	cost := 1 + float64(len(line)/costUnit)
	need := cost
	if s.dropping { // then log many lines together, not single ones
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

// reportDropped logs how many lines were dropped since the last report.
func (s *Stderr) reportDropped() {
	if s.dropped > 0 {
		s.out = fmt.Appendf(s.out, "%d lines dropped\n", s.dropped)
		s.dropped = 0
	}
}

// flush writes out to the log. An error could not be logged either.
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
