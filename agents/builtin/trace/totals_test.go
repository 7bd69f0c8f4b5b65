package trace

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/tracepdu"
)

// A clock is a time that only the test changes.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Unix(1e9, 0)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// text returns the transactions as text: for each tag its id and name; count, sum and last
// value; and for the period number, sum, minimum and maximum.
func text(t *totals) string {
	var v view
	t.read(tracepdu.Transaction, &v)
	var lines []string
	for _, f := range v {
		line := fmt.Sprintf("%d %s %d %g %g", f.id, f.tag, f.count, f.sum, f.last)
		if f.n > 0 {
			line += fmt.Sprintf(" | %d %g %g %g", f.n, f.periodSum, f.min, f.max)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

// Counts are seen at once, and rates when an interval is over. What is older than a period
// does not count for rates.
func TestTotals(t *testing.T) {
	c := newClock()
	s := newTotals(60*time.Second, 5, 1<<20, c.now)
	add := func(tag string, v float64) {
		if !s.add(owner{}, tracepdu.Transaction, []byte(tag), v) {
			t.Errorf("%s is left out", tag)
		}
	}
	for _, step := range []struct {
		name    string
		advance time.Duration
		do      func()
		want    string
	}{
		{"nothing", 0, func() {}, ""},
		{"at once", 0, func() { add("a", 3) }, "1 a 1 3 3"},
		{"another tag", time.Second, func() { add("b", 1); add("a", 1) }, "1 a 2 4 1, 2 b 1 1 1"},
		{"just before the end of the interval", 10*time.Second + 999*time.Millisecond, func() {}, "1 a 2 4 1, 2 b 1 1 1"},
		{"the interval is over", time.Millisecond, func() {}, "1 a 2 4 1 | 2 4 1 3, 2 b 1 1 1 | 1 1 1 1"},
		{"in the second interval", 0, func() { add("a", 9) }, "1 a 3 13 9 | 2 4 1 3, 2 b 1 1 1 | 1 1 1 1"},
		{"both are over", 12 * time.Second, func() {}, "1 a 3 13 9 | 3 13 1 9, 2 b 1 1 1 | 1 1 1 1"},
		{"the last moment of the first", 48*time.Second - time.Millisecond, func() {}, "1 a 3 13 9 | 3 13 1 9, 2 b 1 1 1 | 1 1 1 1"},
		{"the first is too old", time.Millisecond, func() {}, "1 a 3 13 9 | 1 9 9 9, 2 b 1 1 1"},
		{"its bucket is used again", 0, func() { add("b", 5) }, "1 a 3 13 9 | 1 9 9 9, 2 b 2 6 5"},
		{"after a long time", time.Hour, func() {}, "1 a 3 13 9, 2 b 2 6 5"},
		{"a bucket of long ago", 0, func() { add("a", -2) }, "1 a 4 11 -2, 2 b 2 6 5"},
		{"reset", 0, s.reset, ""},
		{"a tag keeps its id", 0, func() { add("b", 7); add("c", 1); add("a", 1) }, "1 a 1 1 1, 2 b 1 7 7, 3 c 1 1 1"},
		{"the interval began at the reset", 12 * time.Second, func() {}, "1 a 1 1 1 | 1 1 1 1, 2 b 1 7 7 | 1 7 7 7, 3 c 1 1 1 | 1 1 1 1"},
	} {
		c.advance(step.advance)
		step.do()
		if got := text(s); got != step.want {
			t.Errorf("%s: got %q, want %q", step.name, got, step.want)
		}
	}
}

// A period that cannot be divided evenly is divided exactly.
func TestUnevenBuckets(t *testing.T) {
	c := newClock()
	s := newTotals(60*time.Second, 7, 1<<20, c.now)
	for range 70 { // 10 a bucket
		s.add(owner{}, tracepdu.Transaction, []byte("a"), 1)
		c.advance(60 * time.Second / 70)
	}
	c.advance(time.Microsecond)
	if got, want := text(s), "1 a 70 70 1 | 70 70 1 1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := s.rate(&figures{n: 90}); got != 1.5 {
		t.Errorf("rate: %v", got)
	}
}

// The kinds are separate, and tags may have any bytes.
func TestKinds(t *testing.T) {
	s := newTotals(time.Minute, 5, 1<<20, time.Now)
	for _, k := range []tracepdu.Kind{tracepdu.Counter, tracepdu.Transaction, tracepdu.Observation, tracepdu.Point} {
		for range k {
			s.add(owner{}, k, []byte("\xff a"), float64(k))
		}
		s.add(owner{}, k, nil, 0)
	}
	for k := tracepdu.Transaction; k <= tracepdu.Counter; k++ {
		var v view
		s.read(k, &v)
		if len(v) != 2 || v[0].tag != "\xff a" || v[0].id != 1 || v[0].count != uint64(k) || v[0].last != float64(k) || v[1].tag != "" {
			t.Errorf("kind %d: %+v", k, v)
		}
	}
}

// Tags have a budget, of which each owner has a share. Those that are known are counted
// when it is used up, and a reset frees all of it but the ids.
func TestBudget(t *testing.T) {
	const cost = seriesCost + 2*bucketCost + idCost + 1
	const memory = 6*cost + 3*userCost
	s := newTotals(time.Minute, 1, memory, time.Now)
	a, b, c := owner{local: true, uid: 1}, owner{local: true, uid: 2}, owner{local: true, uid: 3}
	add := func(o owner, tag string) bool { return s.add(o, tracepdu.Point, []byte(tag), -1) }
	for i, tt := range []struct {
		owner owner
		tags  string // that there is room for
		left  string // and that there is not
	}{
		{a, "123", "45"}, // the half
		{b, "45", "67"},
		{c, "6", "789"},
		{b, "145", "7"},
		{a, "126", "7"},
	} {
		for _, tag := range tt.tags {
			if !add(tt.owner, string(tag)) {
				t.Errorf("%d: no room for %c", i, tag)
			}
		}
		left := s.left
		for _, tag := range tt.left {
			if add(tt.owner, string(tag)) {
				t.Errorf("%d: room for %c", i, tag)
			}
		}
		if s.left != left+uint64(len(tt.left)) {
			t.Errorf("%d: left out: %d", i, s.left)
		}
	}
	s.reset()
	if got, want := s.used, 6*(idCost+1)+3*userCost; got != want || s.left != 0 {
		t.Errorf("used after a reset: %d, want %d; left out: %d", got, want, s.left)
	}
	sum := 0
	for _, n := range s.users {
		sum += *n
	}
	if sum != s.used {
		t.Errorf("owners use %d, all %d", sum, s.used)
	}
	if !add(a, "1") || !add(b, "7") {
		t.Error("no room after a reset")
	}
}

// A PDU is handled at once until the clients are faster than maxRate.
func TestPace(t *testing.T) {
	var p pace
	now := time.Unix(1e9, 0)
	n := 0
	for p.next(now) == 0 {
		n++
	}
	if n != maxRate/10 {
		t.Errorf("%d PDUs at once", n)
	}
	if d := p.next(now); d != burst+2*time.Second/maxRate {
		t.Errorf("waits %v", d)
	}
	if d := p.next(now.Add(time.Second)); d != 0 {
		t.Errorf("a second later: waits %v", d)
	}
}

// What clients cause to be logged has a limit, with the debug option, too.
func TestLimiter(t *testing.T) {
	for _, l := range []*limiter{{}, {max: 3}} {
		var b strings.Builder
		log := slog.New(slog.NewTextHandler(&b, nil))
		lines := func(n int) int {
			b.Reset()
			for range n {
				l.log(log, slog.LevelWarn, "line")
			}
			return strings.Count(b.String(), "\n")
		}
		if n, want := lines(10), max(l.max, 1); n != want {
			t.Errorf("%d lines, want %d", n, want)
		}
		left := 10 - max(l.max, 1)
		l.last = l.last.Add(-time.Minute)
		if n := lines(1); n != 1 || !strings.Contains(b.String(), fmt.Sprint("suppressed=", left)) {
			t.Errorf("a minute later: %s", &b)
		}
	}
}

// With appl0, a client that floods does not fill the disk.
func TestVerbose(t *testing.T) {
	h := newHarness(t, Options{Debug: []string{"appl0"}})
	c, _ := h.dial()
	c.send(strings.Repeat(t1, 2*maxVerbose))
	for range 2 * maxVerbose {
		c.ack()
	}
	if n := strings.Count(h.log.String(), "\n"); n != maxVerbose {
		t.Errorf("%d lines", n)
	}
}
