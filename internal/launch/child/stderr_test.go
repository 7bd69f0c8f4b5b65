package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

// runScript runs a script and returns the log and the last lines.
func runScript(t *testing.T, script string) (log string, last []string) {
	t.Helper()
	var b testutil.Log
	s, err := NewStderr(&b)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(Spec{Argv: []string{"sh", "-c", script}, Pipes: true, Stderr: s.File()})
	s.Started()
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	stop(p, time.Second)
	<-s.done // Close waits for a short time only
	s.Close()
	return b.String(), s.Tail()
}

func TestStderr(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	numbers := func(from, to int) (list []string) {
		for i := from; i <= to; i++ {
			list = append(list, strconv.Itoa(i))
		}
		return list
	}
	tests := []struct {
		name, script, log string
		last              []string
	}{
		{"no output", ":", "", nil},
		{"lines", "echo a >&2; echo ' b\t' >&2; echo >&2", "a\n b\t\n\n", []string{"a", " b\t", ""}},
		{"a line in pieces", "printf a >&2; printf b >&2; echo c >&2", "abc\n", []string{"abc"}},
		{"no newline at the end", "printf 'a\\nb' >&2", "a\nb\n", []string{"a", "b"}},
		{"the longest line", "echo " + long + " >&2", long + "\n", []string{long}},
		{"a line that is too long", "echo " + long + "y >&2; echo z >&2", long + " ...\nz\n", []string{long + " ...", "z"}},
		{"many lines", "seq 50 >&2", strings.Join(numbers(1, 50), "\n") + "\n", numbers(41, 50)},
		{"many long lines", fmt.Sprintf("for i in 1 2 3 4; do echo ${i}%s >&2; done", long[:1000]),
			"1" + long[:1000] + "\n2" + long[:1000] + "\n3" + long[:1000] + "\n4" + long[:1000] + "\n",
			[]string{"3" + long[:1000], "4" + long[:1000]}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log, last := runScript(t, tt.script)
			if log != tt.log {
				t.Errorf("log %.100q, want %.100q", log, tt.log)
			}
			if !slices.Equal(last, tt.last) {
				t.Errorf("last lines %.100q, want %.100q", last, tt.last)
			}
		})
	}
}

// Lines that Tail has returned do not change with what the child writes after that.
func TestTailDoesNotChange(t *testing.T) {
	var s Stderr
	for i := range tailLines {
		s.remember(strconv.Itoa(i))
	}
	last := s.Tail()
	s.remember("more")
	if last[0] != "0" || last[tailLines-1] != "9" {
		t.Errorf("last lines %q after another line, want 0 to 9", last)
	}
}

// A child that writes without end is not blocked. The log says how many lines are
// missing, and Tail has the last lines.
func TestStderrFlood(t *testing.T) {
	const lines = 200_000
	log, last := runScript(t, fmt.Sprintf("seq %d >&2", lines))
	if want := strconv.Itoa(lines); len(last) != tailLines || last[tailLines-1] != want {
		t.Errorf("last lines %q, want %d up to %s", last, tailLines, want)
	}
	passed, dropped := 0, 0
	for line := range strings.Lines(log) {
		var n int
		if _, err := fmt.Sscanf(line, "%d lines dropped", &n); err == nil {
			dropped += n
		} else {
			passed++
		}
	}
	if passed+dropped != lines || passed < rateBurst || dropped == 0 {
		t.Errorf("%d lines logged and %d dropped, want %d together, and at least %d logged", passed, dropped, lines, rateBurst)
	}
}

// What was dropped is reported even if Close closes the pipe between two reads.
func TestStderrClosedBetweenReads(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	w.Close()
	var b testutil.Log
	s := &Stderr{r: r, log: &b, done: make(chan struct{}), dropped: 5}
	s.run()
	if got := b.String(); !strings.HasPrefix(got, "5 lines dropped") {
		t.Errorf("the log has %q", got)
	}
}

// A child that writes without end does not fill the log.
func TestStderrRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Stderr{tokens: rateBurst, tokensAt: time.Now()}
		write := func(lines, wantLogged, wantDropped int) {
			t.Helper()
			for range lines {
				s.splitLines([]byte("x\n"))
			}
			if n := bytes.Count(s.out, []byte("x\n")); n != wantLogged || s.dropped != wantDropped {
				t.Errorf("%d lines logged and %d dropped, want %d and %d", n, s.dropped, wantLogged, wantDropped)
			}
		}
		write(rateBurst+500, rateBurst, 500)
		time.Sleep(time.Minute - time.Millisecond) // not enough for rateResume
		write(10, rateBurst, 510)
		time.Sleep(time.Millisecond)
		write(rateResume+500, rateBurst+rateResume, 500)
		if want := "510 lines dropped\n"; bytes.Count(s.out, []byte(want)) != 1 {
			t.Errorf("the log has not %q once", want)
		}
		time.Sleep(time.Hour) // there are never more tokens than rateBurst
		write(2*rateBurst, 2*rateBurst+rateResume, rateBurst)
	})
}

// A child that writes without end has to wait, so that reading from it takes
// little CPU time.
func TestStderrFloodWaits(t *testing.T) {
	for name, text := range map[string]string{"lines": "chatter\n", "no newline": "chatter "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			s := newStderr(r, w, io.Discard, reportTime)
			defer s.Close()
			began := time.Now()
			w.SetWriteDeadline(began.Add(300 * time.Millisecond))
			chunk, sum := []byte(strings.Repeat(text, 512)), 0
			for err == nil {
				var n int
				n, err = w.Write(chunk)
				sum += n
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			// In addition: what is read before the waits begin, and the pipe's capacity.
			if most := pipeBytes * (10 + int(time.Since(began)/floodTime)); sum > most {
				t.Errorf("%d bytes in 300 ms, want at most %d", sum, most)
			}
		})
	}
}

// Dropped lines are reported even if the child writes nothing more.
func TestStderrFloodEnds(t *testing.T) {
	var b testutil.Log
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := newStderr(r, w, &b, 100*time.Millisecond)
	defer s.Close()
	for range rateBurst + 500 {
		if _, err := s.File().WriteString("x\n"); err != nil {
			t.Fatal(err)
		}
	}
	testutil.Eventually(t, "the log says that lines were dropped", func() bool { return strings.Contains(b.String(), "lines dropped\n") })
	if _, err := s.File().WriteString("the end\n"); err != nil { // too early to be logged
		t.Fatal(err)
	}
	s.Started()
	<-s.done // Close waits for a short time only
	s.Close()
	log := strings.Split(b.String(), "\n")
	dropped := 0
	for _, line := range log[rateBurst:] {
		var n int
		fmt.Sscanf(line, "%d lines dropped", &n)
		dropped += n
	}
	if x := strings.Count(b.String(), "x\n"); x < rateBurst || x+dropped != rateBurst+501 {
		t.Errorf("%d lines logged and %d dropped, want %d together", x, dropped, rateBurst+501)
	}
	if last := s.Tail(); last[len(last)-1] != "the end" {
		t.Errorf("last lines %q", last)
	}
}

// Stop and Close do not wait for a grandchild that has the pipe open, and
// afterwards both the grandchild and the pipe are gone. A grandchild that has left
// the process group is not killed.
func TestStderrOfGrandchildren(t *testing.T) {
	before, _ := os.ReadDir("/proc/self/fd")
	for _, escapes := range []bool{false, true} {
		var b testutil.Log
		s, err := NewStderr(&b)
		if err != nil {
			t.Fatal(err)
		}
		script := "sh -c 'echo $$ >&2; exec sleep 3600' & exec cat"
		if escapes {
			script = "setsid " + script
		}
		p, err := Start(Spec{Argv: []string{"sh", "-c", script}, Pipes: true, Stderr: s.File()})
		s.Started()
		if err != nil {
			t.Fatal(err)
		}
		testutil.Eventually(t, "the grandchild runs", func() bool { return len(s.Tail()) > 0 })
		grandchild, err := strconv.Atoi(s.Tail()[0])
		if err != nil {
			t.Fatal(err)
		}
		p.Stop(context.Background())
		s.Close()
		if escapes {
			if !testutil.Running(grandchild) {
				t.Error("a process outside the group was killed, or Close has waited for its end")
			}
			kill(grandchild)
		}
		testutil.WaitEnded(t, grandchild)
	}
	if after, _ := os.ReadDir("/proc/self/fd"); len(after) > len(before) {
		t.Errorf("%d descriptors before, %d after", len(before), len(after))
	}
}

// In whatever pieces the output of a child arrives, the log has its lines, cut
// where they are too long, and the tail stays small.
func FuzzStderr(f *testing.F) {
	f.Add([]byte("a\nb\n\nc"), 1)
	f.Add([]byte(strings.Repeat("x", maxLine+1)+"\n"), 7)
	f.Add(bytes.Repeat([]byte("\n"), 3000), 4096)
	f.Add(bytes.Repeat([]byte("line of text\n"), 20), 100)
	f.Fuzz(func(t *testing.T, data []byte, chunk int) {
		chunk = max(chunk, 1)
		s := &Stderr{tokens: rateBurst, tokensAt: time.Now()}
		for rest := data; len(rest) > 0; rest = rest[min(chunk, len(rest)):] {
			s.splitLines(rest[:min(chunk, len(rest))])
		}
		s.splitLines([]byte("\n"))
		s.reportDropped()
		var want []byte
		tokens := rateBurst
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			if len(line) > maxLine {
				line = append(slices.Clone(line[:maxLine]), " ..."...)
			}
			if tokens -= 1 + len(line)/costUnit; tokens < 0 {
				break
			}
			want = append(append(want, line...), '\n')
		}
		if !bytes.HasPrefix(s.out, want) {
			t.Errorf("log %.200q, want the prefix %.200q", s.out, want)
		}
		if tokens >= 0 && len(s.out) != len(want) {
			t.Errorf("log of %d bytes, want %d", len(s.out), len(want))
		}
		size := 0
		for _, line := range s.Tail() {
			size += len(line)
		}
		if n := len(s.Tail()); n == 0 || n > tailLines || size > tailBytes {
			t.Errorf("the tail has %d lines and %d bytes", n, size)
		}
	})
}
