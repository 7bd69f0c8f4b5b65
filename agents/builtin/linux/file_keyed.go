package linux

import (
	"bytes"
	"context"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// keyed is a file that has a number a line, behind a name and sep.
type keyed struct {
	file   *sysfile.File
	sep    byte
	fields map[string]*optionalUint // those of the table
	list   []*optionalUint          // the same
	lines  []keyedLine              // that were read last, which are the same most of the time
	source *pmda.Source
}

type keyedLine struct {
	name  string
	field *optionalUint // nil if it is not in the table
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
			f.parse(line[i+1:])
		}
		n++
	}
}

// field returns the field with a name, for the table.
func (k *keyed) field(name string) *optionalUint {
	if k.fields[name] == nil {
		k.fields[name] = new(optionalUint)
		k.list = append(k.list, k.fields[name])
	}
	return k.fields[name]
}

// value is the value of a field.
func (k *keyed) value(name string) pmda.FetchFunc { return k.field(name).fetch() }
