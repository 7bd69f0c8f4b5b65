package proc

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// cgroupMetrics returns the metrics below cgroup. The kernel documents the files
// in Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst.
func (h *host) cgroupMetrics() []pmda.Metric {
	m := h.mounts
	return slices.Concat(m.metrics(), m.cpuset(), m.cpuacct(), m.cpusched(), m.memory(), m.netclass(), newBlkIO(m).metrics(), m.v2Metrics())
}

func (m *mounts) cpuset() []pmda.Metric {
	g := newGroups(m, indomCPUSet, "cpuset", "cpuset.cpus", "cpu", oneText("cpuset.cpus"), oneText("cpuset.mems"))
	text := func(i int) pmda.FetchFunc {
		return g.withField(i, 0, func(v *pmda.Value, r record) { v.SetBytes(r.string(0)) })
	}
	return table(pmda.Metric{InDom: g.indom}, []row{
		{39, 0, "cgroup.cpuset.cpus", str, instant, none, text(0)},
		{39, 1, "cgroup.cpuset.mems", str, instant, none, text(1)},
		{39, 2, "cgroup.cpuset.id.container", str, discrete, none, g.containerName()},
	})
}

// cpuacct returns the metrics of CPU times.
//
// C differs: its values of cgroup.cpuacct.stat are in ticks.
func (m *mounts) cpuacct() []pmda.Metric {
	g := newGroups(m, indomCPUAcct, "cpuacct", "", "cpu",
		format{file: "cpuacct.stat", fields: 2, parse: keyed("user", "system")}, oneNumber("cpuacct.usage"))
	ticks := func(field int) pmda.FetchFunc {
		return g.withField(0, field, func(v *pmda.Value, r record) { v.SetUint(m.msecs(r.num(field))) })
	}
	p := &perCPU{groups: g}
	each := &pmda.InDom{
		Serial: indomPerCPU, Insts: &p.instances, Source: &pmda.Source{Read: p.read},
		Labels: pmda.Labels{"device_type": "cpu"},
		InstLabels: func(_ context.Context, _ *pmda.Request, i pdu.Inst) (pmda.Labels, error) {
			group, cpu := splitInstance(i.Name)
			return pmda.Labels{"cgroup": group, "cpu": strings.TrimPrefix(cpu, "cpu")}, nil
		},
	}
	return append(table(pmda.Metric{InDom: g.indom}, []row{
		{41, 0, "cgroup.cpuacct.stat.user", u64, counter, msec, ticks(0)},
		{41, 1, "cgroup.cpuacct.stat.system", u64, counter, msec, ticks(1)},
		{41, 2, "cgroup.cpuacct.usage", u64, counter, nsec, g.unsigned(1, 0)},
		{41, 4, "cgroup.cpuacct.id.container", str, discrete, none, g.containerName()},
	}), table(pmda.Metric{InDom: each}, []row{
		{41, 3, "cgroup.cpuacct.usage_percpu", u64, counter, nsec, func(_ context.Context, v *pmda.Value) error {
			v.SetUint(*v.Data().(*uint64))
			return nil
		}},
	})...)
}

// perCPU has the instances of cgroup.cpuacct.usage_percpu, pairs of a group and a
// CPU. The file cpuacct.usage_percpu is a line with a number for each CPU, in ns.
type perCPU struct {
	*groups
	instances instances[uint64]
}

func (p *perCPU) read(ctx context.Context, r *pmda.Request) error {
	if err := r.ReadSource(ctx, p.source); err != nil {
		return err
	}
	p.instances.beginScan()
	for _, c := range p.list {
		if err := p.ended(); err != nil {
			return err
		}
		b, _ := sysfile.CutLine(p.text(c, "cpuacct.usage_percpu"))
		for cpu := 0; ; cpu++ {
			var word []byte
			if word, b = sysfile.Field(b); len(word) == 0 {
				break
			}
			if n, ok := sysfile.Uint(word); ok {
				data, _ := p.instances.add(c.name + "::cpu" + strconv.Itoa(cpu))
				*data = n
			}
		}
	}
	p.instances.endScan()
	return nil
}

// splitInstance returns the two parts of an instance name GROUP::DEVICE.
func splitInstance(name string) (group, device string) {
	i := strings.LastIndex(name, "::")
	return name[:max(i, 0)], name[i+2:]
}

func (m *mounts) cpusched() []pmda.Metric {
	g := newGroups(m, indomCPUSched, "cpu", "", "cpu",
		format{file: "cpu.stat", fields: 3, parse: keyed("nr_periods", "nr_throttled", "throttled_time")},
		oneNumber("cpu.shares"), oneNumber("cpu.cfs_period_us"), oneNumber("cpu.cfs_quota_us"))
	return table(pmda.Metric{InDom: g.indom}, []row{
		{43, 0, "cgroup.cpusched.shares", u64, instant, none, g.unsigned(1, 0)},
		{43, 1, "cgroup.cpusched.periods", u64, instant, none, g.unsigned(0, 0)},
		{43, 2, "cgroup.cpusched.throttled", u64, instant, none, g.unsigned(0, 1)},
		{43, 3, "cgroup.cpusched.throttled_time", u64, counter, nsec, g.unsigned(0, 2)},
		{43, 4, "cgroup.cpusched.cfs_period", u64, instant, usec, g.unsigned(2, 0)},
		{43, 5, "cgroup.cpusched.cfs_quota", i64, instant, usec, g.unsigned(3, 0)}, // -1 means no limit: there is no value then
		{43, 6, "cgroup.cpusched.id.container", str, discrete, none, g.containerName()},
	})
}

// netclass returns the metrics of the controller net_cls.
//
// C differs: it looks for a controller of another name, so it has no values.
func (m *mounts) netclass() []pmda.Metric {
	g := newGroups(m, indomNetClass, "net_cls", "", "interface", oneNumber("net_cls.classid"))
	return table(pmda.Metric{InDom: g.indom}, []row{
		{47, 0, "cgroup.netclass.classid", u64, instant, none, g.unsigned(0, 0)},
		{47, 1, "cgroup.netclass.id.container", str, discrete, none, g.containerName()},
	})
}

// v2Metrics returns the metrics that only groups of version 2 have.
//
// C differs: its averages of pressure have no fraction and are encoded as
// another type than the descriptor says.
func (m *mounts) v2Metrics() []pmda.Metric {
	files := []format{{file: "cpu.stat", fields: 3, parse: keyed("user_usec", "system_usec", "usage_usec")}}
	for _, name := range []string{"cpu", "io", "memory", "irq"} {
		files = append(files, format{file: name + ".pressure", fields: 8, parse: parsePressure})
	}
	g := newGroups(m, indomGroup2, "", anyGroup, nil, files...)
	avg := func(i, field int) pmda.FetchFunc {
		return g.withField(i, field, func(v *pmda.Value, r record) { v.SetFloat(math.Float64frombits(r.num(field))) })
	}
	rows := []row{
		{67, 0, "cgroup.cpu.stat.user", u64, counter, usec, g.unsigned(0, 0)},
		{67, 1, "cgroup.cpu.stat.system", u64, counter, usec, g.unsigned(0, 1)},
		{67, 2, "cgroup.cpu.stat.usage", u64, counter, usec, g.unsigned(0, 2)},
	}
	add := func(file, cluster, item int, name string, field int) {
		name = "cgroup.pressure." + name
		rows = append(rows,
			row{cluster, item, name + ".avg10sec", float, instant, none, avg(file, field)},
			row{cluster, item + 1, name + ".avg1min", float, instant, none, avg(file, field+1)},
			row{cluster, item + 2, name + ".avg5min", float, instant, none, avg(file, field+2)},
			row{cluster, item + 3, name + ".total", u64, instant, usec, g.unsigned(file, field+3)},
		)
	}
	add(1, 64, 0, "cpu.some", 0)
	add(2, 65, 0, "io.some", 0)
	add(2, 65, 4, "io.full", 4)
	add(3, 66, 0, "memory.some", 0)
	add(3, 66, 4, "memory.full", 4)
	add(4, 76, 0, "irq.full", 4)
	return table(pmda.Metric{InDom: g.indom}, rows)
}

// parsePressure parses
//
//	some avg10=0.00 avg60=0.12 avg300=0.05 total=4411
//	full ...
func parsePressure(r record, b []byte) {
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		first := -1
		for {
			var word []byte
			if word, line = sysfile.Field(line); len(word) == 0 {
				break
			}
			key, value, isPair := bytes.Cut(word, []byte{'='})
			switch {
			case string(word) == "some":
				first = 0
			case string(word) == "full":
				first = 4
			case !isPair:
				first = -1 // numbers of a kind that is not known
			}
			if first < 0 || !isPair {
				continue
			}
			i := slices.Index(pressureKeys, string(key))
			if n, ok := sysfile.Uint(value); ok && i == 3 {
				r.set(first+i, n)
			} else if f, ok := sysfile.Float(value); ok && i >= 0 && i < 3 {
				r.set(first+i, math.Float64bits(f))
			}
		}
	}
}

var pressureKeys = []string{"avg10", "avg60", "avg300", "total"}
