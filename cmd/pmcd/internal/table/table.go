// Package table prints lines for people, in columns.
package table

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/message"
)

// A Printer writes lines, in columns where they have tabs.
type Printer struct {
	w   io.Writer
	tab *tabwriter.Writer
	err error
}

// New returns a Printer that writes to w.
func New(w io.Writer) *Printer { return &Printer{w: w} }

// Line formats a line. What an agent or a client has sent, and what the file says,
// cannot control the terminal.
func (p *Printer) Line(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = message.Printable(s)
		}
	}
	if p.tab == nil {
		p.tab = tabwriter.NewWriter(p.w, 0, 8, 2, ' ', 0)
	}
	fmt.Fprintf(p.tab, format+"\n", args...)
}

// Flush ends the columns.
func (p *Printer) Flush() error {
	if p.tab != nil {
		p.err = cmp.Or(p.err, p.tab.Flush())
		p.tab = nil
	}
	return p.err
}
