package cache

import (
	"fmt"
	"testing"
)

// disks returns the names and keys of n disks.
func disks(n int) (names []string, keys [][]byte) {
	for i := range n {
		names = append(names, fmt.Sprintf("disk-%05d at controller %d", i, i%7))
		keys = append(keys, []byte{byte(i), byte(i >> 8), byte(i >> 16), 1})
	}
	return names, keys
}

const numDisks = 10000

// refresh updates a Cache as an agent does for each request.
func refresh(tb testing.TB, c *Cache, names []string, keys [][]byte, data any) {
	c.HideAll()
	for i, name := range names {
		var err error
		if keys == nil {
			_, err = c.Add(name, data)
		} else {
			_, err = c.AddKey(name, keys[i], data)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	n := 0
	for id := range c.Active() {
		if e, err := c.Lookup(id); err != nil || e.Data != data {
			tb.Fatal(e, err)
		}
		n++
	}
	if n != len(names) {
		tb.Fatalf("%d active instances of %d", n, len(names))
	}
}

// A refresh does not allocate if all names are known.
func TestRefreshAllocates(t *testing.T) {
	names, keys := disks(100)
	for what, keys := range map[string][][]byte{"Add": nil, "AddKey": keys} {
		c := newCache(t, Options{})
		refresh(t, c, names, keys, c)
		if n := testing.AllocsPerRun(10, func() { refresh(t, c, names, keys, c) }); n != 0 {
			t.Errorf("%s: a refresh of known names allocates %v times", what, n)
		}
	}
}

func BenchmarkRefresh(b *testing.B) {
	names, keys := disks(numDisks)
	for _, bm := range []struct {
		name string
		keys [][]byte
	}{{"Add", nil}, {"AddKey", keys}} {
		b.Run(bm.name, func(b *testing.B) {
			c := newCache(b, Options{})
			refresh(b, c, names, bm.keys, c)
			b.ReportAllocs()
			for b.Loop() {
				refresh(b, c, names, bm.keys, c)
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	names, keys := disks(numDisks)
	for _, bm := range []struct {
		name  string
		keys  [][]byte
		reuse bool
	}{{"Append", nil, false}, {"Reuse", nil, true}, {"AddKey", keys, true}} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c := newCache(b, Options{Dir: "none"})
				c.reuse = bm.reuse
				refresh(b, c, names, bm.keys, c)
			}
		})
	}
}

func BenchmarkFile(b *testing.B) {
	names, _ := disks(numDisks)
	c := newCache(b, Options{})
	refresh(b, c, names, nil, c)
	b.Run("Write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if n, err := c.Write(); n != numDisks || err != nil {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("Load", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if n, err := New(indom, c.opt).Load(); n != numDisks || err != nil {
				b.Fatal(n, err)
			}
		}
	})
}
