package mmv

import (
	"fmt"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/mmv/mmvtest"
	"github.com/gopcp/pmcd/internal/mmvformat"
	"github.com/gopcp/pmcd/pdu"
)

// manyFiles makes files with 100 metrics each.
func manyFiles(b *testing.B, files int) (dir string) {
	b.Helper()
	dir = b.TempDir()
	f := mmvtest.File{}
	for i := range 100 {
		f.Metrics = append(f.Metrics, mmvtest.Metric{
			Name: fmt.Sprintf("group%d.metric%d", i/10, i), Item: uint32(i), Type: mmvformat.Uint64, Sem: 1,
			Short: "a text", Help: "a longer text", Values: []mmvtest.Value{{Data: i}},
		})
	}
	for i := range files {
		f.Write(b, dir, fmt.Sprintf("app%04d", i))
	}
	return dir
}

func benchAgent(b *testing.B, dir string) *agent {
	b.Helper()
	a := newAgent(b, Options{Dir: dir})
	if err := a.refresh(b.Context(), false); err != nil {
		b.Fatal(err)
	}
	return a
}

func benchFetch(b *testing.B, a *agent, r *agents.FetchRequest) {
	var w pdu.ResultWriter
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		w.Reset(buf[:0], 0)
		err := a.Fetch(b.Context(), r, &w)
		if err == nil {
			buf, err = w.Finish()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// The goal is one second.
func BenchmarkStart1000Files(b *testing.B) {
	dir := manyFiles(b, 1000)
	for b.Loop() {
		if a := benchAgent(b, dir); a.metrics != 100000 {
			b.Fatal(a.metrics)
		}
	}
}

// The goal is two milliseconds for 1000 values in 10 files.
func BenchmarkFetch(b *testing.B) {
	for _, bb := range []struct{ files, from, values int }{{10, 10, 1000}, {1000, 10, 1000}, {1000, 1000, 1000}, {10, 1, 1}, {1000, 1, 1}} {
		b.Run(fmt.Sprintf("%d values of %d of %d files", bb.values, bb.from, bb.files), func(b *testing.B) {
			a := benchAgent(b, manyFiles(b, bb.files))
			var ids []pdu.PMID
			for i := range bb.values {
				ids = append(ids, pdu.NewPMID(70, i%bb.from+1, i/bb.from)) // files in turn
			}
			r := &agents.FetchRequest{PMIDs: ids, Profile: new(pdu.Profile)}
			benchFetch(b, a, r)
		})
	}
}

// A metric with many instances.
func BenchmarkFetchInstances(b *testing.B) {
	const n = 10000
	f := mmvtest.File{InDoms: []mmvtest.InDom{{Serial: 1}}, Metrics: []mmvtest.Metric{{Name: "m", Item: 1, Sem: 3, Type: mmvformat.Uint64, InDom: 1}}}
	for i := range n {
		f.InDoms[0].Insts = append(f.InDoms[0].Insts, mmvtest.Inst{ID: int32(i), Name: fmt.Sprint("i", i)})
		f.Metrics[0].Values = append(f.Metrics[0].Values, mmvtest.Value{Inst: int32(i), Data: i})
	}
	dir := b.TempDir()
	f.Write(b, dir, "f")
	a := benchAgent(b, dir)
	for _, few := range []bool{false, true} {
		b.Run(fmt.Sprintf("few=%v", few), func(b *testing.B) {
			p := new(pdu.Profile)
			if few {
				p.InDoms = []pdu.InDomProfile{{InDom: pdu.NewInDom(70, 1<<11|1), Exclude: true, Insts: []int32{7, 9999}}}
			}
			r := &agents.FetchRequest{PMIDs: []pdu.PMID{pdu.NewPMID(70, 1, 1)}, Profile: p}
			benchFetch(b, a, r)
		})
	}
}

// A file is made and removed again and again.
func BenchmarkChange1000Files(b *testing.B) {
	dir := manyFiles(b, 1000)
	a := benchAgent(b, dir)
	for i := 0; b.Loop(); i++ {
		one(i).Write(b, dir, "zz")
		if err := a.rescan(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
