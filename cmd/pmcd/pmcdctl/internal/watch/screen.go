package watch

import (
	"bytes"
	"fmt"
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
	hidden := 0
	if len(p.rows) > room {
		room = max(room-1, 0)
		hidden = len(p.rows) - room
	}
	shown := p.rows[:len(p.rows)-hidden]
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
	if hidden > 0 {
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
