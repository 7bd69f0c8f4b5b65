package linux

import (
	"bytes"
	"context"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// counters is a file with named numbers, in groups such as "Tcp:". It keeps only
// the numbers that have a metric: which names exist depends on the kernel.
type counters struct {
	file    *sysfile.File
	source  *pmda.Source
	groups  map[string]map[string]*optionalUint
	list    []*optionalUint // all of them
	missing optionalUint    // is the number if the file does not have it
}

// newCounters returns the counters of a file; parse reads its text.
func newCounters(f *sysfile.File, parse func(c *counters, b []byte)) *counters {
	c := &counters{file: f, groups: make(map[string]map[string]*optionalUint)}
	c.source = &pmda.Source{Read: func(context.Context, *pmda.Request) error {
		b, err := c.file.Read()
		c.clear()
		parse(c, b)
		return err
	}}
	return c
}

func (c *counters) clear() {
	for _, f := range c.list {
		*f = c.missing
	}
}

// number returns a number of a group, and adds it if necessary.
func (c *counters) number(group, name string) *optionalUint {
	if c.groups[group] == nil {
		c.groups[group] = make(map[string]*optionalUint)
	}
	if c.groups[group][name] == nil {
		c.groups[group][name] = new(optionalUint)
		c.list = append(c.list, c.groups[group][name])
	}
	return c.groups[group][name]
}

// group returns a function that returns FetchFuncs for the numbers of a group. Inlined, it would
// be compiled once more for each row of a table.
//
//go:noinline
func (c *counters) group(group string) func(name string) pmda.FetchFunc {
	return func(name string) pmda.FetchFunc {
		f := c.number(group, name)
		return pmda.FromUint(func() (uint64, bool) { return f.n, f.ok })
	}
}

// parseColumns reads pairs of lines, as in /proc/net/snmp:
//
//	Udp: InDatagrams NoPorts InErrors
//	Udp: 345 1312 0
func (c *counters) parseColumns(b []byte) {
	for len(b) > 0 {
		var names []byte
		names, b = sysfile.CutLine(b)
		values, rest := sysfile.CutLine(b)
		group, names := sysfile.Field(names)
		same, values := sysfile.Field(values)
		if !bytes.Equal(group, same) {
			continue
		}
		b = rest
		numbers := c.groups[string(group)]
		for numbers != nil {
			var name, word []byte
			name, names = sysfile.Field(names)
			word, values = sysfile.Field(values)
			if len(name) == 0 || len(word) == 0 {
				break
			}
			if f := numbers[string(name)]; f != nil {
				f.n, f.ok = sysfile.Uint(word)
			}
		}
	}
}

// parseLines reads lines with a name and a number, as in /proc/net/snmp6. The group
// is "".
//
//	Ip6InReceives                   	18607595
func (c *counters) parseLines(b []byte) {
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		name, line := sysfile.Field(line)
		if f := c.groups[""][string(name)]; f != nil {
			word, _ := sysfile.Field(line)
			f.n, f.ok = sysfile.Uint(word)
		}
	}
}
