package linux

import (
	"bytes"
	"context"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// serials reads /proc/tty/driver/serial, which only root may read. The kernel does
// not write counts that are 0.
//
//	serinfo:1.0 driver revision:
//	0: uart:16550A port:000003F8 irq:26 tx:218 rx:0 fe:3 RTS|CTS|DTR|DSR|CD
//	1: uart:unknown port:000002F8 irq:3
type serials struct {
	h         *host
	file      *sysfile.File
	instances *instances[serial]
}

type serial struct {
	counts [len(serialNames)]optionalUint
}

// Names of counts, by item.
var serialNames = [...]string{"tx", "rx", "fe", "pe", "brk", "oe", "irq"}

func newSerials(h *host) *serials {
	return &serials{h: h, file: h.file("proc/tty/driver/serial"), instances: newUnsavedInstances[serial](h, indomTTY)}
}

func (s *serials) read(_ context.Context, r *pmda.Request) (err error) {
	var b []byte
	if s.h.mayReadRootOnly(r) {
		b, err = s.file.Read()
	}
	s.parse(b)
	return err
}

func (s *serials) parse(b []byte) {
	s.instances.begin()
	defer s.instances.end()
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		port, rest, ok := bytes.Cut(line, []byte{':'})
		kind, rest := sysfile.Field(rest)
		kind, isPort := bytes.CutPrefix(kind, []byte("uart:"))
		if _, isNum := sysfile.Uint(port); !ok || !isNum || !isPort || string(kind) == "unknown" {
			continue
		}
		if i := s.instances.add(port); i != nil {
			i.set(rest)
		}
	}
}

func (i *serial) set(line []byte) {
	for n := range i.counts {
		i.counts[n] = optionalUint{ok: true}
	}
	for len(line) > 0 {
		var word []byte
		word, line = sysfile.Field(line)
		name, value, _ := bytes.Cut(word, []byte{':'})
		for n, s := range serialNames {
			if string(name) == s {
				i.counts[n].parse(value)
			}
		}
	}
}

func (s *serials) metrics() []pmda.Metric {
	indom := &pmda.InDom{Serial: indomTTY, Insts: s.instances, Source: &pmda.Source{Read: s.read}}
	value := func(item int) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, i *serial) { i.counts[item].setValue(v) })
	}
	return table(pmda.Metric{InDom: indom}, []row{
		{74, 0, "tty.serial.tx", u32, counter, none, value(0)},
		{74, 1, "tty.serial.rx", u32, counter, none, value(1)},
		{74, 2, "tty.serial.frame", u32, counter, none, value(2)},
		{74, 3, "tty.serial.parity", u32, counter, none, value(3)},
		{74, 4, "tty.serial.brk", u32, counter, none, value(4)},
		{74, 5, "tty.serial.overrun", u32, counter, none, value(5)},
		{74, 6, "tty.serial.irq", u32, discrete, none, value(6)},
	})
}
