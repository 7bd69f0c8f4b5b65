package linux

import (
	"bytes"
	"context"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// An optionalUint is a number that may be unknown.
type optionalUint struct {
	n  uint64
	ok bool
}

// parse sets f to the number at the start of text, or to the size in KiB of a line with kB.
func (f *optionalUint) parse(text []byte) {
	word, rest := sysfile.Field(text)
	f.n, f.ok = sysfile.Uint(word)
	if unit, _ := sysfile.Field(rest); string(unit) == "kB" {
		f.checkKiB()
	}
}

// parseNamed is parse for a line with a name. A number of pages (nr_) of 2^63 or more is a difference
// below 0, and unknown.
func (f *optionalUint) parseNamed(name, text []byte) {
	f.parse(text)
	f.ok = f.ok && (f.n < 1<<63 || !bytes.HasPrefix(name, []byte("nr_")))
}

// checkKiB makes a size in KiB unknown if it is 2^63 bytes or more: it is a difference below 0. lxcfs
// writes some, and so does the kernel for a node.
func (f *optionalUint) checkKiB() { f.ok = f.ok && f.n < 1<<53 }

// setValue sets v to the number, if it is known.
func (f *optionalUint) setValue(v *pmda.Value) {
	if f.ok {
		v.SetUint(f.n)
	}
}

// fetch returns a FetchFunc for the number.
func (f *optionalUint) fetch() pmda.FetchFunc {
	return func(_ context.Context, v *pmda.Value) error {
		f.setValue(v)
		return nil
	}
}

// A numberLine is a file of /proc/sys with one line of numbers.
type numberLine struct {
	file *sysfile.File
	rec  sysfile.Record
}

func (n *numberLine) read(context.Context, *pmda.Request) error {
	b, err := n.file.Read()
	line, _ := sysfile.CutLine(b)
	n.rec.Parse(line)
	return err
}

// numberLine returns the file and a Metric with its Source, for table.
func (h *host) numberLine(path string) (*numberLine, pmda.Metric) {
	n := &numberLine{file: h.file(path).NeverBlocks(0)}
	return n, pmda.Metric{Source: &pmda.Source{Read: n.read}}
}

// at returns a FetchFunc for number i of the line, counted from 0.
func (n *numberLine) at(i int) pmda.FetchFunc {
	return pmda.FromUint(func() (uint64, bool) { return n.rec.At(i) })
}
