package linux

import (
	"bytes"
	"context"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// keyed is a file whose lines have a name, the byte sep and a number.
type keyed struct {
	file   *sysfile.File
	sep    byte
	fields map[string]*optionalUint // fields that have a metric
	list   []*optionalUint          // the same fields
	lines  []keyedLine              // of the last read: names rarely change
	found  bool                     // a field was in the last read
	source *pmda.Source
}

type keyedLine struct {
	name  string
	field *optionalUint // nil if it has no metric
}

func newKeyed(h *host, path string, sep byte) *keyed {
	k := &keyed{file: h.file(path), sep: sep, fields: make(map[string]*optionalUint)}
	k.source = &pmda.Source{Read: k.read}
	return k
}

func (k *keyed) read(context.Context, *pmda.Request) error {
	b, err := k.file.Read()
	k.parse(b)
	return err
}

func (k *keyed) parse(b []byte) {
	for _, f := range k.list {
		*f = optionalUint{}
	}
	k.found = false
	for n := 0; len(b) > 0; {
		var line []byte
		line, b = sysfile.CutLine(b)
		i := bytes.IndexByte(line, k.sep)
		if i < 0 {
			continue
		}
		if name := line[:i]; n == len(k.lines) || k.lines[n].name != string(name) {
			k.lines = append(k.lines[:n], keyedLine{string(name), k.fields[string(name)]})
		}
		if f := k.lines[n].field; f != nil {
			f.parseNamed(line[:i], line[i+1:])
			k.found = k.found || f.ok
		}
		n++
	}
}

// field returns the field with a name, and adds it if necessary.
func (k *keyed) field(name string) *optionalUint {
	if k.fields[name] == nil {
		k.fields[name] = new(optionalUint)
		k.list = append(k.list, k.fields[name])
	}
	return k.fields[name]
}

// value returns a FetchFunc for a field. Inlined, it would be compiled once more for each row of a
// table.
//
//go:noinline
func (k *keyed) value(name string) pmda.FetchFunc { return k.field(name).fetch() }
