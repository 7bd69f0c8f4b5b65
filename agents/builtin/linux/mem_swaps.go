package linux

import (
	"bytes"
	"context"
	"strconv"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// swaps reads /proc/swaps, proc(5). Sizes are in KiB.
//
//	Filename				Type		Size		Used		Priority
//	/dev/vda2                               partition	1048572		0		-2
type swaps struct {
	file      *sysfile.File
	instances *instances[swap]
}

type swap struct {
	size, used  optionalUint
	priority    int64
	hasPriority bool // the priority is known
}

func newSwaps(h *host) *swaps {
	return &swaps{file: h.file("proc/swaps"), instances: newUnsavedInstances[swap](h, indomSwap)}
}

func (s *swaps) read(context.Context, *pmda.Request) error {
	b, err := s.file.Read()
	s.parse(b)
	return err
}

func (s *swaps) parse(b []byte) {
	s.instances.begin()
	defer s.instances.end()
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		if !bytes.HasPrefix(line, []byte{'/'}) {
			continue
		}
		path, line := sysfile.Field(line)
		_, line = sysfile.Field(line)
		size, line := sysfile.Field(line)
		used, line := sysfile.Field(line)
		priority, _ := sysfile.Field(line)
		if i := s.instances.add(path); i != nil {
			i.size.parse(size)
			i.used.parse(used)
			i.size.checkKiB()
			i.used.checkKiB()
			n, err := strconv.ParseInt(string(priority), 10, 32)
			i.priority, i.hasPriority = n, err == nil
		}
	}
}

func (s *swaps) metrics() []pmda.Metric {
	indom := &pmda.InDom{
		Serial: indomSwap,
		Insts:  s.instances,
		Source: &pmda.Source{Read: s.read},
		Labels: pmda.Labels{"device_type": []string{"block", "memory"}, "indom_name": "per swap device"},
	}
	free := pmda.FromData(func(v *pmda.Value, i *swap) {
		if i.size.ok && i.used.ok {
			v.SetUint(i.size.n - min(i.size.n, i.used.n))
		}
	})
	size := pmda.FromData(func(v *pmda.Value, i *swap) { i.size.setValue(v) })
	zero := pmda.FromData(func(v *pmda.Value, _ *swap) { v.SetUint(0) })
	priority := pmda.FromData(func(v *pmda.Value, i *swap) {
		if i.hasPriority {
			v.SetInt(i.priority)
		}
	})
	return table(pmda.Metric{InDom: indom}, []row{
		{6, 0, "swapdev.free", u32, instant, kbyte, free},
		{6, 1, "swapdev.length", u32, discrete, kbyte, size},
		{6, 2, "swapdev.maxswap", u32, discrete, kbyte, size},
		{6, 3, "swapdev.vlength", u32, discrete, kbyte, zero},
		{6, 4, "swapdev.priority", i32, instant, none, priority},
	})
}
