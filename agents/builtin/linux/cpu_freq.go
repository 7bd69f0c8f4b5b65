package linux

import (
	"context"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// cpuFiles reads the files of /sys/devices/system/cpu/cpuN.
type cpuFiles struct {
	h    *host
	stat *stat
}

// A frequency has the values of the directory cpufreq of a CPU.
type frequency struct {
	count, time, min, max optionalUint
}

func newCPUFiles(h *host, s *stat) *cpuFiles { return &cpuFiles{h: h, stat: s} }

// cpufreq returns the number in a file of the directory cpufreq of a CPU.
func (h *host) cpufreq(c *cpu, file string) (uint64, bool) {
	return h.hostReader.Path("/sys/devices/system/cpu/").Name(c.name).Str("/cpufreq/").Name(file).Number()
}

func (c *cpuFiles) read(context.Context, *pmda.Request) error {
	for _, p := range c.stat.cpus {
		if err := c.h.ended(); err != nil {
			return err
		}
		if p != nil && p.online {
			c.readCPU(p)
		}
	}
	return nil
}

func (c *cpuFiles) readCPU(p *cpu) {
	if b := c.h.hostReader.Path("/sys/devices/system/cpu/").Name(p.name).Str("/cpufreq/stats/time_in_state").Value(); b != nil {
		p.freq.parse(b)
		return
	}
	mhz := func(file string) optionalUint {
		khz, ok := c.h.cpufreq(p, file)
		return optionalUint{khz / 1000, ok}
	}
	p.freq = frequency{count: mhz("scaling_cur_freq"), min: mhz("cpuinfo_min_freq"), max: mhz("cpuinfo_max_freq")}
}

// parse reads time_in_state: frequencies in kHz and the time at each, in units
// of 10 ms (the kernel's Documentation/cpu-freq/cpufreq-stats.rst).
//
//	3600000 2089
//	3400000 136
func (f *frequency) parse(b []byte) {
	var total, hits, low, high uint64
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		var r sysfile.Record
		r.Parse(line)
		if r.Words != 2 || r.Bad != 0 {
			continue
		}
		mhz, time := r.Nums[0]/1000, r.Nums[1]
		hits += time
		total += mhz * time
		high = max(high, mhz)
		if low == 0 || mhz < low {
			low = mhz
		}
	}
	*f = frequency{count: optionalUint{total, true}, time: optionalUint{hits, true}, min: optionalUint{low, true}, max: optionalUint{high, true}}
}

func (c *cpuFiles) metrics() []pmda.Metric {
	online := pmda.FromData(func(v *pmda.Value, p *cpu) { v.SetUint(c.h.online("cpu", p.name)) })
	throttle := func(file string) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, p *cpu) {
			n, _ := c.h.hostReader.Path("/sys/devices/system/cpu/").Name(p.name).Str("/thermal_throttle/").Name(file).Number()
			v.SetUint(n)
		})
	}
	current := pmda.FromData(func(v *pmda.Value, p *cpu) {
		if khz, ok := c.h.cpufreq(p, "scaling_cur_freq"); ok {
			v.SetFloat(float64(khz) / 1000)
		}
	})
	freq := func(f func(*frequency) optionalUint) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, p *cpu) {
			if n := f(&p.freq); n.ok {
				v.SetUint(n.n)
			}
		})
	}
	return append(table(pmda.Metric{InDom: c.stat.indom}, []row{
		{55, 0, "hinv.cpu.online", u32, instant, none, online},
		{55, 2, "hinv.cpu.thermal_throttle.core.count", u64, counter, count, throttle("core_throttle_count")},
		{55, 3, "hinv.cpu.thermal_throttle.core.time", u64, counter, msec, throttle("core_throttle_total_time_ms")},
		{55, 4, "hinv.cpu.thermal_throttle.package.count", u64, counter, count, throttle("package_throttle_count")},
		{55, 5, "hinv.cpu.thermal_throttle.package.time", u64, counter, count, throttle("package_throttle_total_time_ms")},
		{55, 10, "hinv.cpu.frequency_scaling.current", float, instant, mhz, current},
	}), table(pmda.Metric{InDom: c.stat.indom, Source: &pmda.Source{Read: c.read}}, []row{
		{55, 6, "hinv.cpu.frequency_scaling.count", u64, counter, count, freq(func(f *frequency) optionalUint { return f.count })},
		{55, 7, "hinv.cpu.frequency_scaling.time", u64, counter, usec, freq(func(f *frequency) optionalUint { return f.time })},
		{55, 8, "hinv.cpu.frequency_scaling.max", u32, instant, mhz, freq(func(f *frequency) optionalUint { return f.max })},
		{55, 9, "hinv.cpu.frequency_scaling.min", u32, instant, mhz, freq(func(f *frequency) optionalUint { return f.min })},
	})...)
}
