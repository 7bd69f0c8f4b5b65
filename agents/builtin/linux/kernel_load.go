package linux

import (
	"bytes"
	"context"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// load reads /proc/loadavg, proc(5):
//
//	0.20 0.18 0.12 1/80 11206
//
// C differs: missing numbers are 0.
type load struct {
	file *sysfile.File
	avg  [3]float64
	ok   [3]bool

	runnable, procs, last optionalUint
}

func newLoad(h *host) *load { return &load{file: h.file("proc/loadavg").NeverBlocks(0)} }

func (l *load) read(context.Context, *pmda.Request) error {
	b, err := l.file.Read()
	l.parse(b)
	return err
}

func (l *load) parse(b []byte) {
	line, _ := sysfile.CutLine(b)
	for i := range l.avg {
		var word []byte
		word, line = sysfile.Field(line)
		l.avg[i], l.ok[i] = sysfile.Float(word)
	}
	word, line := sysfile.Field(line)
	runnable, procs, _ := bytes.Cut(word, []byte{'/'})
	l.runnable.parse(runnable)
	l.procs.parse(procs)
	l.last.parse(line)
}

func (l *load) metrics() []pmda.Metric {
	indom := &pmda.InDom{
		Serial: indomLoad,
		Insts:  pmda.List{{ID: 1, Name: "1 minute"}, {ID: 5, Name: "5 minute"}, {ID: 15, Name: "15 minute"}},
	}
	average := func(_ context.Context, v *pmda.Value) error {
		if i := v.Index(); l.ok[i] {
			v.SetFloat(l.avg[i])
		}
		return nil
	}
	source := &pmda.Source{Read: l.read}
	return append(table(pmda.Metric{InDom: indom, Source: source}, []row{
		{2, 0, "kernel.all.load", float, instant, none, average},
	}), table(pmda.Metric{Source: source}, []row{
		{2, 1, "kernel.all.lastpid", u32, instant, none, l.last.fetch()},
		{2, 2, "kernel.all.runnable", u32, instant, none, l.runnable.fetch()},
		{2, 3, "kernel.all.nprocs", u32, instant, none, l.procs.fetch()},
	})...)
}
