package mmv

import (
	"testing"

	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/builtin/mmv/mmvtest"
	"github.com/gopcp/pmcd/internal/mmvformat"
	"github.com/gopcp/pmcd/pdu"
)

// samples adds files of each version, right ones and wrong ones.
func samples(f *testing.F) {
	for version := int32(1); version <= 3; version++ {
		b, l := mmvtest.Sample(version).Append()
		f.Add(b)
		for _, tt := range corruptions {
			if tt.all || tt.v1 == (version == 1) {
				c := append([]byte(nil), b...)
				copy(c[tt.off(l):], mmvtest.Bytes(tt.data))
				f.Add(c)
			}
		}
	}
}

// FuzzLoad decodes images without files and requests, which is much faster than FuzzFile.
func FuzzLoad(f *testing.F) {
	samples(f)
	a := newAgent(f, Options{Dir: f.TempDir()})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := checkHeader(b, int64(len(b)))
		if err != nil || !complete(&h) {
			return
		}
		loaded := &file{name: "s", header: h, cluster: 1}
		if _, err := load(t.Context(), loaded, b, "mmv"); err != nil {
			t.Fatal(err)
		}
		if max := 8192 + 16*len(b); loaded.memory > max {
			t.Errorf("%d bytes take %d bytes of memory", len(b), loaded.memory)
		}
		for i := range loaded.metrics {
			for _, v := range loaded.metrics[i].values {
				if image(b).at(uint64(v.off), mmvformat.ValueSize) == nil {
					t.Errorf("a value at %d of %d", v.off, len(b))
				}
			}
		}
		x := a.build([]*file{loaded})
		for n, d := range x.indoms {
			for i, inst := range d.insts {
				if pos, ok := d.position(inst.ID); !ok || pos != i {
					t.Fatalf("instance %d of %d is at %d, %v, and not at %d", inst.ID, n, pos, ok, i)
				}
			}
		}
	})
}

// FuzzFile reads files that are changed in any way: each request about them succeeds or fails,
// and what they take has limits.
func FuzzFile(f *testing.F) {
	samples(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		mmvtest.Write(t, dir, "s", b)
		c := newClient(t, dir)
		var ids []pdu.PMID
		for _, name := range c.names() {
			id := c.id(name)
			d, err := do[pdu.Desc](c, &pdu.DescReq{PMID: id})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			// Package agenttest wants a type, and an instance domain that is known.
			if d.ValueType >= 0 && (d.InDom == pdu.NoInDom || c.indoms[d.InDom.Serial()] != nil) {
				ids = append(ids, id)
			}
			do[pdu.Text](c, &pdu.TextReq{Ident: uint32(id), Kind: pdu.TextOneLine | pdu.TextPMID})
			do[pdu.Labels](c, &pdu.LabelReq{Ident: uint32(id), Kind: pdu.LabelItem})
		}
		for n, d := range c.indoms {
			id := pdu.NewInDom(70, n)
			if _, err := do[pdu.Labels](c, &pdu.LabelReq{Ident: uint32(id), Kind: pdu.LabelInstances}); err != nil {
				t.Fatalf("labels of instances of %v: %v", id, err)
			}
			do[pdu.Text](c, &pdu.TextReq{Ident: uint32(id), Kind: pdu.TextHelp | pdu.TextInDom})
			for i, inst := range d.insts {
				if pos, ok := d.position(inst.ID); !ok || pos != i || inst.ID == pdu.NoInst {
					t.Fatalf("instance %d of %v is at %d, %v, and not at %d", inst.ID, id, pos, ok, i)
				}
			}
		}
		c.values(append(ids, pdu.NewPMID(70, 0, 2))...)
		for _, file := range c.files {
			// Names may overlap in the file, and have up to 128 components.
			if max := 8192 + 16*len(b) + 128*nodeCost*len(file.metrics); file.memory > max {
				t.Errorf("%d bytes take %d bytes of memory", len(b), file.memory)
			}
		}
		if len(ids) > 0 {
			agenttest.Test(t, c.agent, ids...)
		}
	})
}
