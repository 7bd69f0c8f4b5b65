package pmnsload

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// fuzzMaxBytes limits the memory that a few bytes of input can take.
const fuzzMaxBytes = 1 << 20

// FuzzCpp checks that preprocessing ends in bounded memory, and that a name
// space is the same whether it is preprocessed while it is parsed or before.
// No command is run and no file read.
func FuzzCpp(f *testing.F) {
	for _, tt := range cppTests {
		f.Add(tt.in, "a\n#define A 1\n")
	}
	for _, tt := range parseTests {
		f.Add("#define a b\n#include \"one\"\n"+tt.in, "/* x */ #ifdef a\n")
	}
	f.Add("root {\n#include \"one\"\n}\n", "a 1:1:1\n#include \"f\"\n")
	f.Fuzz(func(t *testing.T, text, included string) {
		opt := Options{
			Preprocess: true,
			MaxBytes:   fuzzMaxBytes,
			Open:       memory(map[string]string{"f": text, "one": included}),
		}
		var out bytes.Buffer
		err := preprocess(&out, "f", opt)
		if out.Len() > fuzzMaxBytes+10*maxLine {
			t.Fatalf("%d bytes of output", out.Len())
		}
		tree, parseErr := Load("f", opt)
		if errors.Is(parseErr, errInternal) {
			t.Fatal(parseErr)
		}
		if err != nil {
			if parseErr == nil {
				t.Fatalf("%v, but it can be loaded", err)
			}
			return
		}
		again, againErr := Parse("f", &out, Options{})
		if errors.Is(parseErr, ErrSize) {
			return
		}
		if listing(tree) != listing(again) || fmt.Sprint(parseErr) != fmt.Sprint(againErr) {
			t.Fatalf("loaded %q, %v; parsed %q, %v", listing(tree), parseErr, listing(again), againErr)
		}
	})
}

// FuzzParse checks that parsing ends, and that the methods of a tree agree.
func FuzzParse(f *testing.F) {
	for _, tt := range parseTests {
		f.Add(tt.in, tt.unique)
	}
	f.Add(testTree, false)
	f.Fuzz(func(t *testing.T, text string, unique bool) {
		tree, err := Parse("f", strings.NewReader(text), Options{Unique: unique, MaxBytes: fuzzMaxBytes})
		if err != nil {
			if errors.Is(err, errInternal) {
				t.Fatal(err)
			}
			var list ErrorList
			if !errors.As(err, &list) || tree != nil {
				t.Fatalf("%T, tree %v", err, tree)
			}
			list.Detail()
			return
		}
		checkTree(t, tree, unique)
	})
}

// stretched returns the entries in the result of Stretches.
func stretched(t *testing.T, tree *Tree, name string) (entries []Entry) {
	for _, s := range tree.Stretches(name) {
		n, size := 0, 0
		for b := s.Wire; b != ""; n++ {
			len := int(binary.BigEndian.Uint32([]byte(b)))
			end := 4 + (len+3)&^3
			entries = append(entries, tree.Find(b[4:4+len]))
			if pad := b[4+len : end]; pad != "~~~"[:end-4-len] {
				t.Fatalf("%q is padded with %q", b[4:4+len], pad)
			}
			b = b[end:]
			size += len
		}
		if n != s.Names || size != s.Bytes || n == 0 && s.Root == nil {
			t.Fatalf("%d names of %d bytes in %+v", n, size, s)
		}
		if s.Root != nil {
			e := tree.Find(s.Root.Name)
			if e.Domain != s.Root.Domain {
				t.Fatalf("%+v is %+v", s.Root, e)
			}
			entries = append(entries, e)
		}
	}
	return entries
}

func checkTree(t *testing.T, tree *Tree, unique bool) {
	var walked []Entry
	var walk func(name string)
	walk = func(name string) {
		e := tree.Find(name)
		if e.Name != name {
			t.Fatalf("%q is found as %v", name, e)
		}
		if e.Kind != NonLeaf {
			walked = append(walked, e)
			return
		}
		for _, c := range tree.Children(name) {
			full := strings.TrimPrefix(name+"."+c.Name, ".")
			if leaf := tree.Find(full).Kind == Leaf; !isName([]byte(c.Name)) || leaf != c.Leaf {
				t.Fatalf("%q has child %v, which is %v", name, c, tree.Find(full))
			}
			walk(full)
		}
	}
	walk("")
	if all := slices.Collect(tree.All("")); !slices.Equal(all, walked) || len(all) != tree.Len() {
		t.Fatalf("All has %v, Children %v, Len is %d", all, walked, tree.Len())
	}
	names := []string{""}
	for _, e := range walked {
		names = append(names, e.Name, e.Name[:max(strings.LastIndexByte(e.Name, '.'), 0)])
	}
	for _, name := range names[:min(len(names), 20)] {
		if got, want := stretched(t, tree, name), slices.Collect(tree.All(name)); !slices.Equal(got, want) {
			t.Fatalf("Stretches of %q has %v, All %v", name, got, want)
		}
	}
	seen := map[string]bool{}
	var roots []DynamicRoot
	for _, e := range walked {
		if seen[e.Name] {
			t.Fatalf("%s is there twice", e.Name)
		}
		seen[e.Name] = true
		if e.Kind == Dynamic {
			roots = append(roots, DynamicRoot{e.Name, e.Domain})
			if tree.Find(e.Name+".x") != e || e.PMID != pdu.DynamicRoot(e.Domain) {
				t.Fatalf("below %v is %v", e, tree.Find(e.Name+".x"))
			}
			continue
		}
		names := tree.Names(e.PMID)
		if !slices.Contains(names, e.Name) || unique && len(names) != 1 {
			t.Fatalf("%v has names %v", e, names)
		}
		if below := tree.Find(e.Name + ".x"); below.Kind != Unknown {
			t.Fatalf("below %v is %v", e, below)
		}
		if got := slices.Collect(tree.All(e.Name)); len(got) != 1 || got[0] != e {
			t.Fatalf("All of %v is %v", e, got)
		}
	}
	if !slices.Equal(roots, tree.roots) {
		t.Fatalf("dynamic roots %v, want %v", tree.roots, roots)
	}
}
