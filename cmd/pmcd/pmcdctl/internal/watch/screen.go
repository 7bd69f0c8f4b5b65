package watch

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/message"
	"github.com/gopcp/pmcd/cmd/pmcd/pmcdctl/internal/metrics"
)

// A screen prints samples on a terminal, each in the place of the one before. What was on the
// terminal before stays above.
type screen struct {
	Options
	drawn         int // lines of the sample before, above the cursor
	width, height int // of the terminal then
	buf           bytes.Buffer

	// What is drawn.
	rows    []row
	at      time.Time
	problem string

	sorted bool // by value, the largest first
	first  int  // index of the first row that is shown
	page   int  // rows that were shown
}

// key does what a key other than Quit asks for.
func (p *screen) key(k Key) error {
	switch k {
	case Sort:
		p.sorted, p.first = !p.sorted, 0
	case Up:
		p.first--
	case Down:
		p.first++
	case PageUp:
		p.first -= max(p.page-1, 1)
	case PageDown:
		p.first += max(p.page-1, 1)
	}
	return p.resized()
}

// order returns the rows in the order in which they are shown: numbers before texts if they are
// sorted.
func (p *screen) order() []row {
	if !p.sorted {
		return p.rows
	}
	rows := slices.Clone(p.rows)
	slices.SortStableFunc(rows, func(a, b row) int {
		if a.number != b.number {
			if a.number {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.value, a.value)
	})
	return rows
}

// Control sequences of terminals (ECMA-48).
const (
	eraseLine  = "\x1b[K" // from the cursor to the end of the line
	eraseBelow = "\x1b[J"
	clearAll   = "\x1b[H\x1b[2J"
	wrapOff    = "\x1b[?7l" // what is longer than a line is not seen, such as wide characters
	wrapOn     = "\x1b[?7h"
)

func (p *screen) sample(s *metrics.Sample) error {
	p.rows, p.at, p.problem = rows(s), s.Time, ""
	return p.resized()
}

// failed keeps the values of the sample before.
func (p *screen) failed(err error) error {
	p.at, p.problem = time.Now(), message.Printable(metrics.Reason(err))+"; trying again"
	return p.resized()
}

// resized draws the rows below a line with the time and, if there is one, an error.
func (p *screen) resized() error {
	width, height := p.Size()
	p.buf.Reset()
	p.buf.WriteString(wrapOff)
	switch {
	case width != p.width || height != p.height:
		if p.drawn > 0 {
			p.buf.WriteString(clearAll) // lines may have been wrapped
		}
		p.width, p.height = width, height
	case p.drawn > 0:
		fmt.Fprintf(&p.buf, "\x1b[%dA\r", p.drawn)
	}
	p.drawn = 0
	p.line(p.head())
	if p.problem != "" {
		p.line(p.problem)
	}
	p.line("")
	room := height - p.drawn - 1 // the cursor is in the last line
	all, hidden := p.order(), 0
	if len(all) > room {
		room = max(room-1, 0)
		hidden = len(all) - room
	}
	p.first = max(0, min(p.first, hidden))
	p.page = len(all) - hidden
	shown := all[p.first : p.first+p.page]
	label, number := 0, 0
	for _, r := range shown {
		label = max(label, utf8.RuneCountInString(r.label))
		if r.number {
			number = max(number, utf8.RuneCountInString(r.text))
		}
	}
	for _, r := range shown {
		if r.number {
			p.line(fmt.Sprintf("%-*s  %*s", label, r.label, number, r.text))
		} else {
			p.line(fmt.Sprintf("%-*s  %s", label, r.label, r.text))
		}
	}
	switch {
	case hidden > 0 && p.Keys != nil:
		p.line(fmt.Sprintf("%d to %d of %d: j, k, space and b scroll, s sorts, q quits", p.first+1, p.first+p.page, len(all)))
	case hidden > 0:
		p.line(fmt.Sprintf("and %d more: name fewer metrics, or an instance as METRIC[INSTANCE]", hidden))
	}
	p.buf.WriteString(eraseBelow + wrapOn)
	_, err := p.Out.Write(p.buf.Bytes())
	return err
}

// head returns as much as fits of host, time and interval. The time is the last to go.
func (p *screen) head() string {
	at := p.at.Local()
	stamp := at.Format(time.DateTime)
	for _, s := range []string{fmt.Sprintf("%s  %s  every %v", p.Host, stamp, p.Interval), p.Host + "  " + stamp, stamp} {
		if utf8.RuneCountInString(s) <= p.width {
			return s
		}
	}
	return at.Format(time.TimeOnly)
}

// line adds a line, cut to the width of the terminal.
func (p *screen) line(s string) {
	if p.drawn >= max(p.height-1, 1) {
		return
	}
	n := 0
	for i := range s {
		if n++; n > p.width {
			s = s[:i]
			break
		}
	}
	p.buf.WriteString(s + eraseLine + "\n")
	p.drawn++
}
