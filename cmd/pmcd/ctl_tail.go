package main

import (
	"io"
	"os"
	"strings"
	"time"
)

// A tail keeps the end of what an agent writes to its standard error output.
type tail struct {
	w    *os.File // the agent's
	r    *os.File
	done chan struct{}
	last []byte
}

const (
	tailBytes = 2 << 10
	tailLines = 5
)

func newTail() (*tail, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	t := &tail{w: w, r: r, done: make(chan struct{})}
	go func() { // ends with end
		defer close(t.done)
		b := make([]byte, tailBytes)
		for {
			n, err := r.Read(b)
			t.last = append(t.last, b[:n]...)
			t.last = t.last[max(len(t.last)-tailBytes, 0):]
			if err != nil {
				return
			}
		}
	}()
	return t, nil
}

// end returns the last lines. It waits only for what is on its way: another
// process may have the pipe, too.
func (t *tail) end() []string {
	t.w.Close()
	t.r.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	<-t.done
	t.r.Close()
	return lastLines(string(t.last))
}

// endOf returns the last lines of a file, if there is one.
func endOf(path string) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	f.Seek(-tailBytes, io.SeekEnd) // fails for a shorter one
	b := make([]byte, tailBytes)
	n, _ := io.ReadFull(f, b)
	return lastLines(string(b[:n]))
}

// lastLines returns the last lines of a text that have something in them.
func lastLines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines[max(len(lines)-tailLines, 0):]
}
