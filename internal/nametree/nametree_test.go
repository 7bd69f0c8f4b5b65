package nametree

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

func TestTree(t *testing.T) {
	var tree Tree
	goOn := func() error { return nil }
	if _, err := tree.Leaves("a", goOn); err != pdu.ErrnoName {
		t.Errorf("an empty tree: %v", err)
	}
	for _, tt := range []struct{ name, err string }{
		{"a.b.c", ""},
		{"a.x", ""},
		{"a.b.d", ""},
		{"m", ""},
		{"a.x", "another metric has the name a.x"},
		{"a.b", "there are names below a.b"},
		{"a.x.y.z", "a.x is a metric"},
		{"", "not a valid name"},
		{"a..y", "not a valid name"},
		{".y", "not a valid name"},
		{"y.", "not a valid name"},
	} {
		err := tree.Add(tt.name, pdu.NewPMID(1, 0, 0))
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q: %v, want %q", tt.name, err, tt.err)
		}
	}
	all, err := tree.Leaves("a", goOn)
	if want := []string{"a.b.c", "a.b.d", "a.x"}; err != nil || !slices.Equal(all, want) {
		t.Errorf("%q, %v; want %q", all, err, want)
	}
	children, err := tree.Children("a", goOn)
	if want := []pdu.Child{{Name: "b"}, {Name: "x", Leaf: true}}; err != nil || !slices.Equal(children, want) {
		t.Errorf("%v, %v; want %v", children, err, want)
	}
	for name, want := range map[string]error{"a.x": nil, "m": nil, "a": pdu.ErrnoName, "y": pdu.ErrnoName, "a.x.y": pdu.ErrnoName} {
		if _, err := tree.PMID(name); err != want {
			t.Errorf("PMID of %s: %v, want %v", name, err, want)
		}
	}
	stop := errors.New("stop")
	end := func() error { return stop }
	if _, err := tree.Leaves("a", end); err != stop {
		t.Errorf("leaves: %v, want %v", err, stop)
	}
	if _, err := tree.Children("a", end); err != stop {
		t.Errorf("children: %v, want %v", err, stop)
	}
}

// A name that is removed takes its ancestors with it, unless other names are below them.
func TestRemove(t *testing.T) {
	var tree Tree
	for _, name := range []string{"a.b.c", "a.b.d", "a.x.y"} {
		if err := tree.Add(name, pdu.NewPMID(1, 0, 0)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		left []string
	}{
		{"a.b", []string{"a.b.c", "a.b.d", "a.x.y"}}, // no metric
		{"a.z", []string{"a.b.c", "a.b.d", "a.x.y"}},
		{"a.b.c", []string{"a.b.d", "a.x.y"}},
		{"a.x.y", []string{"a.b.d"}},
		{"a.b.d", nil},
	} {
		tree.Remove(tt.name)
		left, err := tree.Leaves("a", func() error { return nil })
		if !slices.Equal(left, tt.left) || (err != nil) != (tt.left == nil) {
			t.Errorf("without %s: %q, %v; want %q", tt.name, left, err, tt.left)
		}
	}
	if err := tree.Add("a", pdu.NewPMID(1, 0, 0)); err != nil || len(tree.nodes) != 1 {
		t.Errorf("afterwards: %v, %d nodes", err, len(tree.nodes))
	}
}
