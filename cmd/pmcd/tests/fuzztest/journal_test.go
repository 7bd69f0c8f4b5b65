package fuzztest

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// A journal has the last actions of an episode, with their times.
type journal struct {
	mu    sync.Mutex // guards the following
	begin time.Time
	lines []string
	count int
}

// journalLength is how many actions are kept.
const journalLength = 300

func (j *journal) add(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.begin.IsZero() {
		j.begin = time.Now()
	}
	if j.count++; len(j.lines) >= 2*journalLength {
		j.lines = append(j.lines[:0], j.lines[len(j.lines)-journalLength:]...)
	}
	j.lines = append(j.lines, fmt.Sprintf("%8.3f %s", time.Since(j.begin).Seconds(), text))
}

// String returns the last actions.
func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	last := j.lines[max(0, len(j.lines)-journalLength):]
	return fmt.Sprintf("the last %d of %d actions:\n%s\n", len(last), j.count, strings.Join(last, "\n"))
}
