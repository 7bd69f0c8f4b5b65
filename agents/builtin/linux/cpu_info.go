package linux

import (
	"bytes"
	"context"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// cpuInfo has the fields of a CPU in /proc/cpuinfo. They are slices of the text
// that was read, and valid until the next read.
type cpuInfo struct {
	fields [infoFields][]byte
}

const (
	infoVendor = iota
	infoModel
	infoModelName
	infoStepping
	infoCache
	infoCacheAlign
	infoFlags
	infoBogomips
	infoMHz
	infoHertz
	infoFields
)

// infoNames maps lines of /proc/cpuinfo to fields, by the beginnings of their names
// on all architectures. Upper and lower case are the same. The first entry that
// matches a line counts, and the first line of a field.
var infoNames = []struct {
	name  string
	field int
}{
	{"model name", infoModelName},
	{"hardware", infoModelName},
	{"model", infoModel},
	{"cpu model", infoModel},
	{"cpu variant", infoModel},
	{"vendor", infoVendor},
	{"cpu implementer", infoVendor},
	{"step", infoStepping},
	{"revision", infoStepping},
	{"cpu revision", infoStepping},
	{"flags", infoFlags},
	{"features", infoFlags},
	{"cache size", infoCache},
	{"cache_align", infoCacheAlign},
	{"bogo", infoBogomips},
	{"cpu mhz", infoMHz},
	{"cycle frequency", infoHertz},
}

// cpuInfoFile reads /proc/cpuinfo.
type cpuInfoFile struct {
	h    *host
	file *sysfile.File
	stat *stat
}

func newCPUInfo(h *host, s *stat) *cpuInfoFile {
	return &cpuInfoFile{h: h, file: h.file("proc/cpuinfo"), stat: s}
}

func (c *cpuInfoFile) read(context.Context, *pmda.Request) error {
	b, err := c.file.Read()
	c.parse(b)
	return err
}

// parse reads the blocks of /proc/cpuinfo. Each starts with a line
//
//	processor	: 0
//
// On some machines there is one block for all CPUs, before or after these lines. On others, such as
// ppc64le and the Raspberry Pi, lines for all CPUs are after the last block and an empty line.
//
// C differs: it counts blocks, and so assigns the block of the next CPU to a CPU
// that is offline. Only the last CPU has the lines after the last block.
func (c *cpuInfoFile) parse(b []byte) {
	for _, p := range c.stat.cpus {
		if p != nil {
			p.info = cpuInfo{}
		}
	}
	var common cpuInfo
	dest, block, onlyBlock := &common, -1, false
	afterProcessor := false // the previous line was a line processor
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		if len(line) == 0 {
			dest = &common
		}
		i := bytes.IndexByte(line, ':')
		if i < 0 {
			continue
		}
		name, value := bytes.TrimSpace(line[:i]), bytes.TrimSpace(line[i+1:])
		if bytes.HasPrefix(name, []byte("processor")) {
			onlyBlock = onlyBlock || afterProcessor
			block++
			dest, afterProcessor = c.block(name, value, block), true
			continue
		}
		afterProcessor = false
		if onlyBlock || block < 0 {
			onlyBlock = true
			dest = &common
		}
		if dest != nil {
			dest.set(name, value)
		}
	}
	for _, p := range c.stat.cpus {
		if p == nil {
			continue
		}
		for i, value := range common.fields {
			if p.info.fields[i] == nil {
				p.info.fields[i] = value
			}
		}
	}
}

// block returns the fields of the CPU that the block of a line
//
//	processor	: 0
//	processor 0: version = FF,  identification = 0133E8     (s390)
//
// describes. If the line has no number, it is CPU n. The result is nil if that CPU
// was never online.
func (c *cpuInfoFile) block(name, value []byte, n int) *cpuInfo {
	num, ok := sysfile.Uint(value)
	if !ok {
		_, word := sysfile.Field(name)
		num, ok = sysfile.Uint(bytes.TrimSpace(word))
	}
	if !ok {
		num = uint64(n)
	}
	if num >= uint64(len(c.stat.cpus)) || c.stat.cpus[num] == nil {
		return nil
	}
	return &c.stat.cpus[num].info
}

// set sets the field of a line.
func (c *cpuInfo) set(name, value []byte) {
	for i := range infoNames {
		n := &infoNames[i]
		if len(name) < len(n.name) || !bytes.EqualFold(name[:len(n.name)], []byte(n.name)) || c.fields[n.field] != nil {
			continue
		}
		c.fields[n.field] = value
		return
	}
}

// float returns the number in a field, or 0.
func (c *cpuInfo) float(field int) float64 {
	word, _ := sysfile.Field(c.fields[field])
	f, _ := sysfile.Float(word)
	return f
}

func (c *cpuInfoFile) metrics() []pmda.Metric {
	// text returns a FetchFunc for the first of the fields that the file has.
	text := func(fields ...int) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, p *cpu) {
			for _, f := range fields {
				if t := p.info.fields[f]; t != nil {
					v.SetBytes(t)
					return
				}
			}
			v.SetBytes(unknown)
		})
	}
	size := func(f int) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, p *cpu) {
			word, _ := sysfile.Field(p.info.fields[f])
			if n, ok := sysfile.Uint(word); ok && n > 0 {
				v.SetUint(n)
			}
		})
	}
	bogomips := pmda.FromData(func(v *pmda.Value, p *cpu) {
		if f := p.info.float(infoBogomips); f != 0 {
			v.SetFloat(f)
		}
	})
	clock := pmda.FromData(func(v *pmda.Value, p *cpu) {
		f := p.info.float(infoMHz)
		if f == 0 {
			f = p.info.float(infoHertz) / 1e6
		}
		if f == 0 {
			khz, _ := c.h.cpufreq(p, "scaling_cur_freq")
			f = float64(khz) / 1000
		}
		if f != 0 {
			v.SetFloat(f)
		}
	})
	num := pmda.FromData(func(v *pmda.Value, p *cpu) { v.SetUint(uint64(p.num)) })
	return append(table(pmda.Metric{InDom: c.stat.indom, Source: &pmda.Source{Read: c.read}}, []row{
		{18, 0, "hinv.cpu.clock", float, discrete, mhz, clock},
		{18, 1, "hinv.cpu.vendor", str, discrete, none, text(infoVendor)},
		{18, 2, "hinv.cpu.model", str, discrete, none, text(infoModel, infoModelName)},
		{18, 3, "hinv.cpu.stepping", str, discrete, none, text(infoStepping)},
		{18, 4, "hinv.cpu.cache", u32, discrete, kbyte, size(infoCache)},
		{18, 5, "hinv.cpu.bogomips", float, discrete, none, bogomips},
		{18, 9, "hinv.cpu.model_name", str, discrete, none, text(infoModelName, infoModel)},
		{18, 10, "hinv.cpu.flags", str, discrete, none, text(infoFlags)},
		{18, 11, "hinv.cpu.cache_alignment", u32, discrete, none, size(infoCacheAlign)},
	}), table(pmda.Metric{InDom: c.stat.indom}, []row{
		{18, 6, "hinv.map.cpu_num", u32, discrete, none, num},
	})...)
}
