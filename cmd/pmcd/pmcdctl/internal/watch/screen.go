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
	last          []row
	buf           bytes.Buffer
}

// Control sequences of terminals (ECMA-48).
const (
	eraseLine  = "\x1b[K" // from the cursor to the end of the line
	eraseBelow = "\x1b[J"
	clearAll   = "\x1b[H\x1b[2J"
)

func (p *screen) sample(s *metrics.Sample) error {
	p.last = rows(s)
	return p.draw(s.Time.Local().Format(time.DateTime), "")
}

// failed keeps the values of the sample before.
func (p *screen) failed(err error) error {
	return p.draw(time.Now().Format(time.DateTime), message.Printable(err.Error())+"; trying again")
}

// draw draws the rows below a line with the time and, if there is one, an error.
func (p *screen) draw(stamp, problem string) error {
	width, height := p.Size()
	p.buf.Reset()
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
	p.line(fmt.Sprintf("%s  %s  every %v", p.Host, stamp, p.Interval))
	if problem != "" {
		p.line(problem)
	}
	p.line("")
	room := height - p.drawn - 1 // the cursor is in the last line
	hidden := 0
	if len(p.last) > room {
		room = max(room-1, 0)
		hidden = len(p.last) - room
	}
	shown := p.last[:len(p.last)-hidden]
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
	p.buf.WriteString(eraseBelow)
	_, err := p.Out.Write(p.buf.Bytes())
	return err
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
