package pmnsload

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// large returns the text of a name space of n metrics, 20 in a block, with names like
// those of agents, and the names.
func large(n int) (text []byte, names []string) {
	var b, groups bytes.Buffer
	b.WriteString("root {\n")
	for d := 0; d*500 < n; d++ {
		fmt.Fprintf(&b, "\tagent%03d\n", d)
		fmt.Fprintf(&groups, "agent%03d {\n", d)
		for c := 0; c < 25 && d*500+c*20 < n; c++ {
			fmt.Fprintf(&groups, "\tinterface%02d\n", c)
		}
		groups.WriteString("}\n")
		for c := 0; c < 25 && d*500+c*20 < n; c++ {
			fmt.Fprintf(&groups, "agent%03d.interface%02d {\n", d, c)
			for i := 0; i < 20 && d*500+c*20+i < n; i++ {
				fmt.Fprintf(&groups, "\tcounter_in_bytes_%02d\t%d:%d:%d\n", i, 1+d%500, d/500*25+c, i)
				names = append(names, fmt.Sprintf("agent%03d.interface%02d.counter_in_bytes_%02d", d, c, i))
			}
			groups.WriteString("}\n")
		}
	}
	b.WriteString("\tdynamic 30:*:*\n}\n")
	b.Write(groups.Bytes())
	return b.Bytes(), names
}

// TestMemoryOfATree checks that a tree takes at most 200 bytes for each name, including
// the name.
func TestMemoryOfATree(t *testing.T) {
	const n, most = 100000, 200
	text, _ := large(n)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what had a finalizer
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	tree, err := Parse("large", bytes.NewReader(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	each := float64(heap()-before) / n
	runtime.KeepAlive(text)
	t.Logf("%d names, %d nodes, %.1f bytes a name", tree.Len(), len(tree.nodes), each)
	if each > most {
		t.Errorf("%.1f bytes a name, want at most %d", each, most)
	}
	runtime.KeepAlive(tree)
}

func TestLookingUpDoesNotAllocate(t *testing.T) {
	text, names := large(1000)
	tree := parseTree(t, string(text))
	got := testing.AllocsPerRun(10, func() {
		for _, name := range names {
			tree.PMID(name)
		}
		tree.Find("dynamic.x.y")
		tree.Find("agent000.nope")
		for range tree.All("") {
		}
		tree.Stretches("")
	})
	if got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func BenchmarkLoad(b *testing.B) {
	const n = 100000
	text, _ := large(n)
	path := b.TempDir() + "/large"
	if err := os.WriteFile(path, text, 0o666); err != nil {
		b.Fatal(err)
	}
	for _, opt := range []Options{{}, {Preprocess: true}, {Preprocess: true, Unique: true}} {
		b.Run(fmt.Sprintf("Preprocess=%v,Unique=%v", opt.Preprocess, opt.Unique), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if tree, err := Load(path, opt); err != nil || tree.Len() != n+1 {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/name")
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	text, names := large(100000)
	tree := parseTree(b, string(text))
	b.Run("100 names", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			for range 100 {
				i = (i + 7919) % len(names)
				if id, _ := tree.PMID(names[i]); id == pdu.NoPMID {
					b.Fatal(names[i])
				}
			}
		}
	})
	b.Run("below a dynamic root", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			tree.Find("dynamic.a.b")
		}
	})
	b.Run("unknown", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			tree.Find("agent000.interface00.nope")
		}
	})
	b.Run("names of a PMID", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			tree.Names(pdu.NewPMID(50, 7, 11))
		}
	})
}

func BenchmarkAll(b *testing.B) {
	text, _ := large(100000)
	tree := parseTree(b, string(text))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for e := range tree.All("") {
			n += len(e.Name)
		}
	}
}

func BenchmarkStretches(b *testing.B) {
	text, _ := large(100000)
	tree := parseTree(b, string(text))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, s := range tree.stretches("") {
			n += len(s.Wire)
		}
	}
}

func BenchmarkChildren(b *testing.B) {
	text, _ := large(100000)
	tree := parseTree(b, string(text))
	b.ReportAllocs()
	for b.Loop() {
		tree.Children("")
	}
}
