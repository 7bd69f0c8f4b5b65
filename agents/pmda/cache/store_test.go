package cache

import (
	"errors"
	"os"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// Hide and the like change the states of instances.
func TestStates(t *testing.T) {
	c := newCache(t, Options{})
	add(t, c, "a", "b")
	if id, err := c.Add("b", 42); id != 1 || err != nil {
		t.Fatal(id, err)
	}
	want := func(inactive int, ids ...int32) {
		t.Helper()
		if a, i := c.Size(); a != len(ids) || i != inactive {
			t.Errorf("%d active and %d inactive, want %d and %d", a, i, len(ids), inactive)
		}
		wantIDs(t, "active", active(c), ids...)
		checkConsistent(t, c)
	}
	want(0, 0, 1)
	if err := c.Hide("a"); err != nil {
		t.Fatal(err)
	}
	want(1, 1)
	if e, err := c.Lookup(0); err != nil || e.State != Inactive || e.Name != "a" {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := c.Lookup(1); err != nil || e != (Entry{1, "b", Active, 42}) {
		t.Errorf("%+v, %v", e, err)
	}
	if n := c.HideAll(); n != 1 {
		t.Errorf("%d hidden", n)
	}
	want(2)
	add(t, c, "a")
	if n := c.LimitInactive(1); n != 0 {
		t.Errorf("%d removed, although one may be inactive", n)
	}
	want(1, 0)
	if n := c.LimitInactive(0); n != 1 {
		t.Errorf("%d removed, want 1", n)
	}
	want(0, 0)
	if _, err := c.Lookup(1); !errors.Is(err, pdu.ErrnoInst) {
		t.Error(err)
	}
	wantErr(t, "hide what was removed", c.Hide("b"), pdu.ErrnoInst)
	wantIDs(t, "another id", add(t, c, "b", "c", "d"), 2, 3, 4)
	c.Each(func(id int32, _ string, _ any) bool {
		if id == 2 {
			c.Hide("c")
		}
		if id == 3 {
			t.Error("an instance is active that was hidden meanwhile")
		}
		return id != 4
	})
	want(1, 0, 2, 4)
}

// Ids are assigned as in C.
func TestIDs(t *testing.T) {
	load := func(text string) *Cache {
		c := newCache(t, Options{})
		writeFile(t, c, text)
		if _, err := c.Load(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := load("2 1 2147483647\n0 1 a\n3 1 b\n")
	wantIDs(t, "lowest free ones", add(t, c, "c", "d", "e"), 1, 2, 4)
	c.Hide("d")
	c.LimitInactive(0)
	wantIDs(t, "what was removed is free", add(t, c, "f", "g"), 0, 2)

	c = load("2 0 2\n1 1 a\n")
	wantIDs(t, "highest id, then the lowest free one", add(t, c, "c", "d"), 2, 0)
	_, err := c.Add("e", nil)
	wantErr(t, "none is free", err, pdu.ErrnoGeneric)
}

// Save writes only if something has changed.
func TestDirty(t *testing.T) {
	for _, c := range []struct {
		what string
		do   func(*Cache)
		save int
	}{
		{"nothing", func(*Cache) {}, 0},
		{"add", func(c *Cache) { c.Add("new", nil) }, 3},
		{"add again", func(c *Cache) { c.Add("a", nil) }, 0},
		{"failing add", func(c *Cache) { c.Add("a a", nil) }, 0},
		{"hide", func(c *Cache) { c.Hide("a") }, 0},
		{"as many inactive as the limit", func(c *Cache) { c.Hide("a"); c.LimitInactive(1) }, 0},
		{"more inactive than the limit", func(c *Cache) { c.Hide("a"); c.LimitInactive(0) }, 1},
		{"load", func(c *Cache) { c.Load() }, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			k := newCache(t, Options{})
			add(t, k, "a", "b")
			if n, err := k.Save(); n != 2 || err != nil {
				t.Fatal(n, err)
			}
			c.do(k)
			if n, err := k.Save(); err != nil || n != c.save {
				t.Errorf("Save %d, %v, want %d", n, err, c.save)
			}
		})
	}
	// A file without instances is written, too.
	k := newCache(t, Options{})
	add(t, k, "a")
	k.Save()
	k.HideAll()
	k.LimitInactive(0)
	k.Save()
	path, _ := k.Path()
	if b, err := os.ReadFile(path); err != nil || string(b) != "2 0 2147483647\n" {
		t.Errorf("%q, %v", b, err)
	}
}
