package linux

import (
	"bytes"
	"context"
	"slices"
	"strconv"

	"github.com/gopcp/pmcd/agents/builtin/internal/ids"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/pdu"
)

// interrupts reads /proc/interrupts or /proc/softirqs, proc(5). A line counts the
// interrupts of one kind on each CPU that is online.
//
//	           CPU0       CPU1
//	 24:          1          0  IO-APIC   5-edge      ACPI:Ged
//	LOC:   37279254   36608384   Local timer interrupts
//	ERR:          0
//
// On a large host there are a hundred thousand numbers. Therefore instances are
// rebuilt only if lines or columns have changed since the last read.
type interrupts struct {
	file     *sysfile.File
	header   []byte
	cpus     []int // numbers of CPUs, by column
	rows     []irqRow
	percpu   []optionalUint // sums, by number of the CPU
	lines    *instances[irqLine]
	cells    *cache.Cache // see rebuild
	warnings ids.Warnings // of cells

	errors, missed uint64
	exists         bool
}

// An irqLine is an instance: a kind of interrupt.
type irqLine struct {
	name  string
	text  string // the text after the numbers
	total uint64
}

// An irqCell is an instance: a kind of interrupt on a CPU.
type irqCell struct {
	line *irqLine
	cpu  int
	n    uint64
}

// An irqRow has the instances of a line.
type irqRow struct {
	line  *irqLine
	text  []byte
	cells []*irqCell
}

func newInterrupts(h *host, path string, lines, cells int) *interrupts {
	q := &interrupts{file: h.file(path), lines: newInstances[irqLine](h, lines), warnings: ids.Warnings{Log: h.Log}}
	q.cells = cache.New(pdu.NewInDom(h.domain, cells), cache.Options{Dir: h.CacheDir, Warn: q.warnings.Warn})
	return q
}

func (q *interrupts) read(context.Context, *pmda.Request) error {
	b, err := q.file.Read()
	if err != nil {
		return err
	}
	q.parse(b)
	return nil
}

func (q *interrupts) parse(b []byte) {
	q.exists = len(b) > 0
	header, b := sysfile.CutLine(b)
	if !bytes.Equal(header, q.header) || !q.update(b) {
		q.header = append(q.header[:0], header...)
		q.rebuild(b)
	}
	clear(q.percpu)
	for i := range q.rows {
		r := &q.rows[i]
		r.line.total = 0
		for _, c := range r.cells {
			r.line.total += c.n
			q.percpu[c.cpu].n += c.n
		}
	}
	for _, c := range q.cpus {
		q.percpu[c].ok = true
	}
}

// update reads the numbers of all lines. It returns false if the lines are not the
// same as at the last read.
func (q *interrupts) update(b []byte) bool {
	q.errors, q.missed = 0, 0
	row := 0
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		name, rest := q.name(line)
		if name == nil {
			continue
		}
		if row == len(q.rows) {
			return false
		}
		r := &q.rows[row]
		row++
		if r.line.name != string(name) {
			return false
		}
		if q.lines.h.ended() != nil {
			return true // the numbers are not used
		}
		for _, c := range r.cells {
			n, after, ok := column(rest)
			if !ok {
				return false
			}
			c.n, rest = n, after
		}
		if !bytes.Equal(rest, r.text) { // also if the line has fewer numbers
			return false
		}
	}
	return row == len(q.rows)
}

// column parses the next number of a line. ok is false if the word is not a number.
func column(line []byte) (n uint64, rest []byte, ok bool) {
	word, rest := sysfile.Field(line)
	n, ok = sysfile.Uint(word)
	return n, rest, ok
}

// name parses the name of the interrupt in a line. It is nil in two kinds of lines,
// which have one number for all CPUs: errors and missed interrupts.
//
// C differs: if these two begin with a blank, as on hosts with a thousand
// interrupts, it takes them for other lines. A number of ten digits that follows
// the colon at once, as in IPI0:1234567890 of arm64, is a part of the name.
func (q *interrupts) name(line []byte) (name, rest []byte) {
	name, rest = sysfile.Field(line)
	if i := bytes.IndexByte(name, ':') + 1; i > 0 {
		name, rest = name[:i], line[len(line)-len(rest)-len(name)+i:]
	}
	switch string(name) {
	case "ERR:", "Err:", "BAD:":
		q.errors, _, _ = column(rest)
		return nil, nil
	case "MIS:":
		q.missed, _, _ = column(rest)
		return nil, nil
	}
	if n := len(name); n > 0 && (name[n-1] == ':' || name[n-1] == '_') {
		name = name[:n-1]
	}
	if len(name) == 0 {
		return nil, nil
	}
	return name, rest
}

// rebuild creates the instances of all lines. Cells are in the cache alone: instances would keep
// each name and id four more times, 13 MB for 256 CPUs with 263 interrupts.
func (q *interrupts) rebuild(b []byte) {
	q.columns()
	q.errors, q.missed = 0, 0
	clear(q.rows)
	q.rows = q.rows[:0]
	q.lines.begin()
	defer q.lines.end()
	loaded, err := q.cells.TryLoad()
	if err != nil {
		q.warnings.Warn(err)
	}
	q.cells.HideAll()
	var full []byte
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		name, rest := q.name(line)
		if name == nil || len(q.cpus) == 0 {
			continue
		}
		l := q.lines.add(name)
		if l == nil {
			continue
		}
		*l = irqLine{name: string(name)}
		r := irqRow{line: l}
		for _, cpu := range q.cpus {
			n, after, ok := column(rest)
			if !ok {
				break
			}
			rest = after
			full = strconv.AppendInt(append(append(full[:0], name...), "::cpu"...), int64(cpu), 10)
			c := &irqCell{line: l, cpu: cpu, n: n}
			if _, err := q.cells.Add(string(full), c); err == nil {
				r.cells = append(r.cells, c)
			}
		}
		r.text = bytes.Clone(rest)
		l.text = string(bytes.Join(bytes.Fields(rest), []byte{' '}))
		q.rows = append(q.rows, r)
	}
	// CPUs that go offline later may come back, and are more than maxInactive cells.
	if loaded && len(q.rows) > 0 && q.lines.h.ended() == nil {
		q.cells.LimitInactive(maxInactive)
	}
	if q.lines.saveIDs {
		if err := q.cells.TrySave(); err != nil {
			q.warnings.Warn(err)
		}
	}
}

// columns reads the first line, which has the CPU of each column. If a word of it is
// malformed, there are no values.
//
// C differs: if a CPU is offline, it assigns the columns after it to other CPUs.
func (q *interrupts) columns() {
	q.cpus = q.cpus[:0]
	clear(q.percpu)
	q.percpu = q.percpu[:0]
	for line := q.header; ; {
		var word []byte
		if word, line = sysfile.Field(line); len(word) == 0 {
			return
		}
		digits, ok := bytes.CutPrefix(word, []byte("CPU"))
		n, isNum := sysfile.Uint(digits)
		if !ok || !isNum || n > maxCPU {
			q.cpus = q.cpus[:0]
			return
		}
		q.cpus = append(q.cpus, int(n))
		for len(q.percpu) <= int(n) {
			q.percpu = append(q.percpu, optionalUint{})
		}
	}
}

// indoms returns the instance domains of lines and cells.
func (q *interrupts) indoms(source *pmda.Source) (lines, cells *pmda.InDom) {
	return &pmda.InDom{Serial: q.lines.cache.InDom().Serial(), Insts: q.lines, Source: source},
		&pmda.InDom{Serial: q.cells.InDom().Serial(), Insts: q.cells, Source: source}
}

// lineTotal, cellCount and cpuTotal set the values of instances.
func lineTotal(v *pmda.Value, l *irqLine) { v.SetUint(l.total) }
func cellCount(v *pmda.Value, c *irqCell) { v.SetUint(c.n) }
func (q *interrupts) cpuTotal(v *pmda.Value, c *cpu) {
	if c.num < len(q.percpu) {
		q.percpu[c.num].setValue(v)
	}
}

func interruptMetrics(h *host, s *stat) []pmda.Metric {
	q := newInterrupts(h, "proc/interrupts", indomIRQ, indomIRQCPU)
	source := &pmda.Source{Read: q.read}
	lines, cells := q.indoms(source)
	lines.Labels = pmda.Labels{"device_type": "irq", "indom_name": "per irq"}
	lines.InstLabels = func(_ context.Context, _ *pmda.Request, i pdu.Inst) (pmda.Labels, error) {
		return pmda.Labels{"irq": i.Name, "irqtext": q.lines.get(i.Name).text}, nil
	}
	cells.Labels = pmda.Labels{"device_type": []string{"irq", "cpu"}, "indom_name": "per cpu, per irq"}
	cells.InstLabels = func(_ context.Context, _ *pmda.Request, i pdu.Inst) (pmda.Labels, error) {
		_, data, _ := q.cells.Find(i.ID)
		c := data.(*irqCell)
		return pmda.Labels{"cpu": c.cpu, "irq": c.line.name, "irqtext": c.line.text}, nil
	}
	value := func(n *uint64) pmda.FetchFunc { return pmda.FromUint(func() (uint64, bool) { return *n, q.exists }) }
	return slices.Concat(table(pmda.Metric{InDom: lines}, []row{
		{4, 0, "kernel.all.interrupts.total", u64, counter, count, pmda.FromData(lineTotal)},
	}), table(pmda.Metric{InDom: cells}, []row{
		{4, 1, "kernel.percpu.interrupts", u32, counter, count, pmda.FromData(cellCount)},
	}), table(pmda.Metric{InDom: s.indom, Source: source}, []row{
		{4, 4, "kernel.percpu.intr", u64, counter, count, pmda.FromData(q.cpuTotal)},
	}), table(pmda.Metric{Source: source}, []row{
		{4, 2, "kernel.all.interrupts.missed", u32, counter, count, value(&q.missed)},
		{4, 3, "kernel.all.interrupts.errors", u32, counter, count, value(&q.errors)},
	}))
}

func softIRQMetrics(h *host, s *stat) []pmda.Metric {
	q := newInterrupts(h, "proc/softirqs", indomSoftIRQ, indomSoftIRQCPU)
	source := &pmda.Source{Read: q.read}
	lines, cells := q.indoms(source)
	lines.Labels = pmda.Labels{"indom_name": "per softirq"}
	cells.Labels = pmda.Labels{"device_type": "cpu", "indom_name": "per cpu, per softirq"}
	cells.InstLabels = func(_ context.Context, _ *pmda.Request, i pdu.Inst) (pmda.Labels, error) {
		_, data, _ := q.cells.Find(i.ID)
		c := data.(*irqCell)
		return pmda.Labels{"cpu": c.cpu, "softirq": c.line.name}, nil
	}
	return slices.Concat(table(pmda.Metric{InDom: lines}, []row{
		{82, 0, "kernel.all.softirqs.total", u64, counter, count, pmda.FromData(lineTotal)},
	}), table(pmda.Metric{InDom: cells}, []row{
		{63, 0, "kernel.percpu.softirqs", u32, counter, count, pmda.FromData(cellCount)},
	}), table(pmda.Metric{InDom: s.indom, Source: source}, []row{
		{63, 1, "kernel.percpu.sirq", u64, counter, count, pmda.FromData(q.cpuTotal)},
	}))
}
