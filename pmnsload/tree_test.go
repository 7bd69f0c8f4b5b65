package pmnsload

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

const testTree = `
root {
	a
	top	1:1:1
	dyn	7:*:*
	empty
}
a {
	b	1:2:3
	dyn	7:*:*
	c
	same	1:1:1
}
a.c {
	d	1:2:4
	dyn	9:*:*
}
empty { }
`

func parseTree(t testing.TB, text string) *Tree {
	t.Helper()
	tree, err := Parse("test", strings.NewReader(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestFind(t *testing.T) {
	tree := parseTree(t, testTree)
	leaf := func(name string, c, i int) Entry {
		return Entry{Leaf, pdu.NewPMID(1, c, i), 0, name}
	}
	unknown := Entry{PMID: pdu.NoPMID}
	nonLeaf := func(name string) Entry { return Entry{NonLeaf, pdu.NoPMID, 0, name} }
	dynamic := func(domain int, name string) Entry {
		return Entry{Dynamic, pdu.DynamicRoot(domain), domain, name}
	}
	for _, tt := range []struct {
		name string
		want Entry
	}{
		{"top", leaf("top", 1, 1)},
		{"a.b", leaf("a.b", 2, 3)},
		{"a.c.d", leaf("a.c.d", 2, 4)},
		{"a.same", leaf("a.same", 1, 1)},
		{"a", nonLeaf("a")},
		{"a.c", nonLeaf("a.c")},
		{"empty", nonLeaf("empty")},
		{"", nonLeaf("")},
		{"dyn", dynamic(7, "dyn")},
		{"dyn.x", dynamic(7, "dyn")},
		{"dyn.x.y", dynamic(7, "dyn")},
		{"a.dyn", dynamic(7, "a.dyn")},
		{"a.dyn.x", dynamic(7, "a.dyn")},
		{"a.c.dyn.x." + strings.Repeat("y", 100), dynamic(9, "a.c.dyn")},
		// A name with an empty component is not a name of the agent.
		{"dyn.", unknown},
		{"dyn..x", unknown},
		{"dyn.x.", unknown},
		{".", unknown},
		{".dyn", unknown},
		{".top", unknown},
		{"top.", unknown},
		{"a.", unknown},
		{"a..b", unknown},
		{"top.x", unknown},
		{"a.x", unknown},
		{"a.b.c", unknown},
		{"a.c.x", unknown},
		{"empty.x", unknown},
		{"to", unknown},
		{"topp", unknown},
		{"dynx", unknown},
		{"dynx.y", unknown},
		{"x.dyn.y", unknown},
		{"root", unknown},
		{"root.top", unknown},
		{"top\x00", unknown},
		{"A", unknown},
		{strings.Repeat("a.", 32000), unknown},
	} {
		t.Run(fmt.Sprintf("%.40s", tt.name), func(t *testing.T) {
			if got := tree.Find(tt.name); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestPMIDOfTheEmptyNameIsUnknown(t *testing.T) {
	tree := parseTree(t, testTree)
	for _, tt := range []struct {
		name string
		id   pdu.PMID
		kind Kind
	}{
		{"", pdu.NoPMID, Unknown},
		{"a", pdu.NoPMID, NonLeaf},
		{"a.b", pdu.NewPMID(1, 2, 3), Leaf},
		{"dyn.x", pdu.DynamicRoot(7), Dynamic},
	} {
		if id, kind := tree.PMID(tt.name); id != tt.id || kind != tt.kind {
			t.Errorf("%q: got %v, %v, want %v, %v", tt.name, id, kind, tt.id, tt.kind)
		}
	}
}

func TestNamesAreThoseDefinedLastFirst(t *testing.T) {
	tree := parseTree(t, testTree)
	for _, tt := range []struct {
		id   pdu.PMID
		want string
	}{
		{pdu.NewPMID(1, 1, 1), "top a.same"}, // the tree's order counts, not the file's
		{pdu.NewPMID(1, 2, 3), "a.b"},
		{pdu.NewPMID(1, 2, 5), ""},
		{pdu.NewPMID(0, 0, 0), ""},
		{pdu.DynamicRoot(7), ""},
		{pdu.NoPMID, ""},
	} {
		if got := strings.Join(tree.Names(tt.id), " "); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.id, got, tt.want)
		}
	}
}

func TestChildrenAreInTheOrderOfTheFile(t *testing.T) {
	tree := parseTree(t, testTree)
	for name, want := range map[string][]pdu.Child{
		"":          {{Name: "a"}, {Name: "top", Leaf: true}, {Name: "dyn"}, {Name: "empty"}},
		"a":         {{Name: "b", Leaf: true}, {Name: "dyn"}, {Name: "c"}, {Name: "same", Leaf: true}},
		"a.c":       {{Name: "d", Leaf: true}, {Name: "dyn"}},
		"empty":     nil,
		"top":       nil,
		"dyn":       nil,
		"a.dyn.x":   nil,
		"x":         nil,
		"a.":        nil,
		"a.c.d.e":   nil,
		"root":      nil,
		"a.c.dyn.x": nil,
	} {
		t.Run(name, func(t *testing.T) {
			if got := tree.Children(name); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestAllIsDepthFirst(t *testing.T) {
	tree := parseTree(t, testTree)
	for name, want := range map[string]string{
		"":          "a.b a.dyn* a.c.d a.c.dyn* a.same top dyn*",
		"a":         "a.b a.dyn* a.c.d a.c.dyn* a.same",
		"a.c":       "a.c.d a.c.dyn*",
		"a.c.d":     "a.c.d",
		"dyn":       "dyn*",
		"dyn.x":     "",
		"empty":     "",
		"top.x":     "",
		"a.":        "",
		"a.c.d.e":   "",
		"a.c.dyn.x": "",
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for e := range tree.All(name) {
				if e != tree.Find(e.Name) {
					t.Errorf("got %v, found %v", e, tree.Find(e.Name))
				}
				star := ""
				if e.Kind == Dynamic {
					star = "*"
				}
				got = append(got, e.Name+star)
			}
			if s := strings.Join(got, " "); s != want {
				t.Errorf("got %q, want %q", s, want)
			}
		})
	}
	for range tree.All("") {
		break // must not yield again
	}
}

func TestStretchesAreWhatAllIs(t *testing.T) {
	for text, stretches := range map[string]int{
		testTree:                            3, // each root ends one
		"root { a 1:1:1 b c 1:1:3 }\nb { }": 2,
		"root { x }\nx { a 1:1:1 y }\nx.y { bb 1:1:2 ccc 1:1:3 }": 1,
		"root { d 1:*:* }": 1,
		"root { }":         0,
	} {
		tree := parseTree(t, text)
		checkTree(t, tree, false)
		if n := len(tree.Stretches("")); n != stretches {
			t.Errorf("%d stretches, want %d, of %s", n, stretches, text)
		}
	}
}

func TestDynamicRootsAreInTheOrderOfTheTree(t *testing.T) {
	tree := parseTree(t, testTree)
	want := []DynamicRoot{{"a.dyn", 7}, {"a.c.dyn", 9}, {"dyn", 7}}
	if got := tree.roots; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := tree.Len(); got != 7 {
		t.Errorf("Len is %d", got)
	}
}

func TestATreeWithoutNames(t *testing.T) {
	for what, tree := range map[string]*Tree{"nil": nil, "zero": new(Tree), "empty root": parseTree(t, "root { }\n")} {
		if e := tree.Find(""); e.Kind != NonLeaf || e.PMID != pdu.NoPMID {
			t.Errorf("%s: root is %v", what, e)
		}
		for _, name := range []string{"a", "a.b", ".", "."} {
			if e := tree.Find(name); e.Kind != Unknown || e.PMID != pdu.NoPMID {
				t.Errorf("%s: %q is %v", what, name, e)
			}
		}
		for _, name := range []string{"", "a"} {
			if len(tree.Children(name)) != 0 {
				t.Errorf("%s: %q has children", what, name)
			}
			for e := range tree.All(name) {
				t.Errorf("%s: %q has %v", what, name, e)
			}
		}
		if tree.Names(0) != nil || tree.Names(pdu.NoPMID) != nil || tree.Len() != 0 {
			t.Errorf("%s: has names", what)
		}
	}
}

func TestKindsHaveNames(t *testing.T) {
	for k, want := range map[Kind]string{Unknown: "Unknown", Leaf: "Leaf", NonLeaf: "NonLeaf", Dynamic: "Dynamic", 9: "Kind(9)"} {
		if got := k.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestATreeMayBeReadByMany(t *testing.T) {
	tree := parseTree(t, testTree)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				for e := range tree.All("") {
					if e.Kind == Leaf && !slices.Contains(tree.Names(e.PMID), e.Name) {
						t.Errorf("no %s", e.Name)
					}
				}
				tree.Children("a")
			}
		})
	}
	wg.Wait()
}
