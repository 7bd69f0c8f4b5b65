package linux

import (
	"bytes"
	"context"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/sysfile"
)

// keyed is a file that has a number a line, behind a name and sep.
type keyed struct {
	file   *sysfile.File
	sep    byte
	fields map[string]*fact // those of the table
	source *pmda.Source
}

func newKeyed(h *host, path string, sep byte) keyed {
	k := keyed{file: h.file(path), sep: sep, fields: make(map[string]*fact)}
	k.source = &pmda.Source{Read: k.read}
	return k
}

func (k *keyed) read(context.Context, *pmda.Request) error {
	b, err := k.file.Read()
	k.parse(b)
	return err
}

func (k *keyed) parse(b []byte) {
	for _, f := range k.fields {
		*f = fact{}
	}
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		i := bytes.IndexByte(line, k.sep)
		if i < 0 {
			continue
		}
		if f := k.fields[string(line[:i])]; f != nil {
			f.set(line[i+1:])
		}
	}
}

// field returns the field with a name, for the table.
func (k *keyed) field(name string) *fact {
	if k.fields[name] == nil {
		k.fields[name] = new(fact)
	}
	return k.fields[name]
}

// is is the value of a field.
func (k *keyed) is(name string) pmda.FetchFunc { return k.field(name).fetch() }
