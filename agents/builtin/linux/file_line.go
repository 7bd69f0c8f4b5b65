package linux

import (
	"context"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// A fact is a number, if it is known.
type fact struct {
	n  uint64
	ok bool
}

// set sets f to the number that text starts with.
func (f *fact) set(text []byte) {
	word, _ := sysfile.Field(text)
	f.n, f.ok = sysfile.Uint(word)
}

// give makes f the value.
func (f *fact) give(v *pmda.Value) {
	if f.ok {
		v.Uint(f.n)
	}
}

func (f *fact) fetch() pmda.FetchFunc {
	return func(_ context.Context, v *pmda.Value) error {
		f.give(v)
		return nil
	}
}

// numbers is a file with one line of numbers.
type numbers struct {
	file *sysfile.File
	rec  sysfile.Record
}

func (n *numbers) read(context.Context, *pmda.Request) error {
	b, err := n.file.Read()
	line, _ := sysfile.CutLine(b)
	n.rec.Parse(line)
	return err
}

// numbers returns such a file and what is read before its values are.
func (h *host) numbers(path string) (*numbers, pmda.Metric) {
	n := &numbers{file: h.file(path)}
	return n, pmda.Metric{Source: &pmda.Source{Read: n.read}}
}

// at is the number in a place, from 0 on.
func (n *numbers) at(place int) pmda.FetchFunc {
	return pmda.Number(func() (uint64, bool) { return n.rec.At(place) })
}
