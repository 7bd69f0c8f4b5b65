package pdu

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// A capture is one PDU between PCP 6.0.3 programs, from testdata/pdus/INDEX.txt.
type capture struct {
	file   string
	typ    string
	wire   []byte
	fields map[string]any // what another decoder made of it
}

func captures(t testing.TB) []capture {
	t.Helper()
	index, err := os.ReadFile("testdata/pdus/INDEX.txt")
	if err != nil {
		t.Fatal(err)
	}
	var cs []capture
	for line := range strings.Lines(string(index)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") || len(f) != 5 {
			continue
		}
		c := capture{file: f[0], typ: f[1]}
		text, err := os.ReadFile(filepath.Join("testdata/pdus", c.file))
		if err != nil {
			t.Fatal(err)
		}
		c.wire = unhex(t, string(text))
		if err := json.Unmarshal([]byte(f[4]), &c.fields); err != nil {
			t.Fatalf("%s: %v", c.file, err)
		}
		cs = append(cs, c)
	}
	if len(cs) < 138 {
		t.Fatalf("%d captures, want 138 at least", len(cs))
	}
	return cs
}

// Every capture decodes to the fields in the index, and encodes to the same bytes. So
// the unset time of a store and the swapped ident of a TEXT are kept, too. (The padding
// of event records is undefined, but relays do not decode them: see
// TestEventCaptures.)
func TestCaptures(t *testing.T) {
	types := make(map[Type]bool)
	for _, c := range captures(t) {
		t.Run(c.file, func(t *testing.T) {
			from, m, err := Parse(c.wire)
			if err != nil {
				t.Fatal(err)
			}
			types[m.Type()] = true
			if m.Type().String() != c.typ {
				t.Errorf("type %v, want %s", m.Type(), c.typ)
			}
			got, err := Append(nil, from, m)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, c.wire) {
				t.Errorf("Append:\n got %x\nwant %x", got, c.wire)
			}
			fields := describe(m)
			fields["len"] = len(c.wire)
			fields["from"] = from
			if got := normal(t, fields); !reflect.DeepEqual(got, normal(t, c.fields)) {
				t.Errorf("fields:\n got %v\nwant %v", got, c.fields)
			}
		})
	}
	for typ := TypeError; typ <= TypeDescs; typ++ {
		if newMessage(typ) != nil && !types[typ] {
			t.Errorf("no capture of %v", typ)
		}
	}
}

// normal converts v to JSON and back, so that types do not matter, and removes the
// fields that messages do not have.
func normal(t *testing.T, v map[string]any) map[string]any {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var n map[string]any
	if err := json.Unmarshal(b, &n); err != nil {
		t.Fatal(err)
	}
	var strip func(any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, k := range []string{"wordoff", "json_off", "when", "pad", "padding", "nstrbytes", "id"} {
				delete(v, k)
			}
			for _, e := range v {
				strip(e)
			}
		case []any:
			for _, e := range v {
				strip(e)
			}
		}
	}
	strip(n)
	return n
}

type object = map[string]any

// describe returns m in the words of the index.
func describe(m Message) object {
	switch m := m.(type) {
	case *Error:
		o := object{"code": m.Code}
		if m.Greeting {
			o["datum"] = hex32(m.Info)
		}
		return o
	case *Creds:
		return object{"numcreds": len(m.Creds), "creds": list(m.Creds, func(c Cred) any { return hex32(uint32(c)) })}
	case *Attr:
		return object{"attr": m.Code, "value": string(m.Value)}
	case *Profile:
		return object{
			"ctxid": m.Context, "g_state": state(m.Exclude), "numprof": len(m.InDoms),
			"prof": list(m.InDoms, func(p InDomProfile) any {
				return object{
					"indom": indomText(p.InDom), "state": state(p.Exclude), "numinst": len(p.Insts),
					"insts": list(p.Insts, func(i int32) any { return i }),
				}
			}),
		}
	case *Fetch:
		return object{"ctxid": m.Context, "numpmid": len(m.PMIDs), "pmids": list(m.PMIDs, pmidText)}
	case *HighResFetch:
		return object{"ctxid": m.Context, "numpmid": len(m.PMIDs), "pmids": list(m.PMIDs, pmidText)}
	case *Result:
		return object{"sec": m.Sec, "usec": m.Usec, "numpmid": len(m.Sets), "vset": list(m.Sets, describeSet)}
	case *HighResResult:
		return object{"sec": m.Sec, "nsec": m.Nsec, "numpmid": len(m.Sets), "vset": list(m.Sets, describeSet)}
	case *DescReq:
		return object{"pmid": pmidText(m.PMID)}
	case *Desc:
		return describeDesc(*m).(object)
	case *DescIDs:
		return object{"sts": -1, "numids": len(m.PMIDs), "ids": list(m.PMIDs, pmidText)}
	case *Descs:
		return object{"numdescs": len(m.Descs), "descs": list(m.Descs, describeDesc)}
	case *InstanceReq:
		return object{"indom": indomText(m.InDom), "inst": m.Inst, "namelen": len(m.Name), "name": m.Name}
	case *Instance:
		return object{
			"indom": indomText(m.InDom), "numinst": len(m.Insts),
			"insts": list(m.Insts, func(in Inst) any { return []any{in.ID, len(in.Name), in.Name} }),
		}
	case *TextReq:
		return object{"ident": hex32(m.Ident), "ttype": m.Kind}
	case *Text:
		return object{"ident": hex32(m.Ident), "buflen": len(m.Text), "text": m.Text}
	case *PMNSIDs:
		return object{"sts": m.Status, "numids": len(m.PMIDs), "ids": list(m.PMIDs, pmidText)}
	case *PMNSNames:
		o := object{"numnames": len(m.Names), "numstatus": len(m.Status), "names": list(m.Names, func(s string) any { return s })}
		if m.Err < 0 {
			o["numnames"] = m.Err
		}
		if m.Status != nil {
			var names []any
			for i, s := range m.Names {
				names = append(names, []any{m.Status[i], s})
			}
			o["names"] = names
		}
		return o
	case *PMNSChild:
		return object{"subtype": m.Subtype, "namelen": len(m.Name), "name": m.Name}
	case *PMNSTraverse:
		return object{"subtype": 0, "namelen": len(m.Name), "name": m.Name}
	case *LabelReq:
		return object{"ident": hex32(m.Ident), "ltype": m.Kind}
	case *Labels:
		return object{
			"ident": hex32(m.Ident), "ltype": m.Kind, "nsets": len(m.Sets),
			"sets": list(m.Sets, func(s LabelSet) any {
				return object{
					"inst": s.Inst, "nlabels": len(s.Labels), "jsonlen": len(s.JSON), "json": string(s.JSON),
					"labels": list(s.Labels, func(l Label) any {
						return object{"name": l.Name, "namelen": l.NameLen, "flags": l.Flags, "value": l.Value, "valuelen": l.ValueLen}
					}),
				}
			}),
		}
	}
	panic(fmt.Sprintf("no description of %v", m.Type()))
}

func describeDesc(d Desc) any {
	return object{
		"pmid": pmidText(d.PMID), "dtype": d.ValueType, "indom": indomText(d.InDom),
		"sem": d.Sem, "units": hex32(uint32(d.Units)),
	}
}

func describeSet(vs ValueSet) any {
	o := object{"pmid": pmidText(vs.PMID), "numval": len(vs.Values)}
	if vs.Err < 0 {
		o["numval"] = vs.Err
	}
	if len(vs.Values) > 0 {
		o["valfmt"] = vs.Format
		o["vlist"] = list(vs.Values, func(v Value) any {
			if vs.Format == FormatInsitu {
				return object{"inst": v.Inst, "lval": int32(v.Word)}
			}
			return object{"inst": v.Inst, "vtype": v.Type, "vlen": len(v.Block) + 4, "vbuf": hex.EncodeToString(v.Block)}
		})
	}
	return o
}

func list[T any](s []T, f func(T) any) []any {
	l := []any{}
	for _, e := range s {
		l = append(l, f(e))
	}
	return l
}

func pmidText(id PMID) any {
	if id == NoPMID {
		return "NULL"
	}
	return id.String()
}

func indomText(id InDom) any {
	if id == NoInDom {
		return "NULL"
	}
	return id.String()
}

func hex32(v uint32) string { return fmt.Sprintf("0x%08x", v) }

func state(exclude bool) int {
	if exclude {
		return 1
	}
	return 0
}

// The TEXT that this host writes is the TEXT of the capture, byte for byte.
func TestTextIdent(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the captures are of a little-endian host")
	}
	if got := TextIdent(0x3f400001); got != 0x0100403f {
		t.Errorf("got %#x, want 0x0100403f", got)
	}
}
