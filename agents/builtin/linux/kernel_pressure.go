package linux

import (
	"bytes"
	"context"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// A pressure reads a file of /proc/pressure, see the kernel's
// Documentation/accounting/psi.rst. Averages are the percentage of the time in
// which tasks waited; the total is in microseconds.
//
//	some avg10=0.04 avg60=0.46 avg300=0.48 total=124804836
//	full avg10=0.00 avg60=0.03 avg300=0.03 total=34167008
type pressure struct {
	file       *sysfile.File
	some, full stall
}

type stall struct {
	avg   [3]float64
	ok    [3]bool
	total optionalUint
}

func (p *pressure) read(context.Context, *pmda.Request) error {
	b, err := p.file.Read()
	p.parse(b)
	return err
}

func (p *pressure) parse(b []byte) {
	p.some, p.full = stall{}, stall{}
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		word, line := sysfile.Field(line)
		switch string(word) {
		case "some":
			p.some.set(line)
		case "full":
			p.full.set(line)
		}
	}
}

func (s *stall) set(line []byte) {
	for len(line) > 0 {
		var word []byte
		word, line = sysfile.Field(line)
		name, value, _ := bytes.Cut(word, []byte{'='})
		switch string(name) {
		case "avg10":
			s.avg[0], s.ok[0] = sysfile.Float(value)
		case "avg60":
			s.avg[1], s.ok[1] = sysfile.Float(value)
		case "avg300":
			s.avg[2], s.ok[2] = sysfile.Float(value)
		case "total":
			s.total.parse(value)
		}
	}
}

func (s *stall) average(_ context.Context, v *pmda.Value) error {
	if i := v.Index(); s.ok[i] {
		v.SetFloat(s.avg[i])
	}
	return nil
}

func pressureMetrics(h *host) []pmda.Metric {
	indom := &pmda.InDom{
		Serial: indomPressure,
		Insts:  pmda.List{{ID: 10, Name: "10 second"}, {ID: 60, Name: "1 minute"}, {ID: 300, Name: "5 minute"}},
	}
	var ms []pmda.Metric
	file := func(name string) (*pressure, *pmda.Source) {
		p := &pressure{file: h.file("proc/pressure/" + name).NeverBlocks(0)}
		return p, &pmda.Source{Read: p.read}
	}
	add := func(cluster, item int, name string, s *stall, source *pmda.Source) {
		ms = append(ms, table(pmda.Metric{InDom: indom, Source: source}, []row{
			{cluster, item, "kernel.all.pressure." + name + ".avg", float, instant, none, s.average},
		})...)
		ms = append(ms, table(pmda.Metric{Source: source}, []row{
			{cluster, item + 1, "kernel.all.pressure." + name + ".total", u64, counter, usec, s.total.fetch()},
		})...)
	}
	cpu, fromCPU := file("cpu")
	memory, fromMemory := file("memory")
	io, fromIO := file("io")
	irq, fromIRQ := file("irq")
	add(83, 0, "cpu.some", &cpu.some, fromCPU)
	add(84, 0, "memory.some", &memory.some, fromMemory)
	add(84, 2, "memory.full", &memory.full, fromMemory)
	add(85, 0, "io.some", &io.some, fromIO)
	add(85, 2, "io.full", &io.full, fromIO)
	add(93, 0, "irq.full", &irq.full, fromIRQ)
	return ms
}
