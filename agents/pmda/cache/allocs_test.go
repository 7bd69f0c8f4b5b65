package cache

import (
	"fmt"
	"testing"
)

// disks returns the names of n disks.
func disks(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("disk-%05d at controller %d", i, i%7))
	}
	return names
}

// refresh updates a Cache as an agent does for each request.
func refresh(tb testing.TB, c *Cache, names []string, data any) {
	c.HideAll()
	for _, name := range names {
		if _, err := c.Add(name, data); err != nil {
			tb.Fatal(err)
		}
	}
	n := 0
	c.Each(func(id int32, _ string, d any) bool {
		if d != data {
			tb.Fatal(id, d)
		}
		n++
		return true
	})
	if n != len(names) {
		tb.Fatalf("%d active instances of %d", n, len(names))
	}
}

// A refresh does not allocate if all names are known.
func TestRefreshAllocates(t *testing.T) {
	names, c := disks(100), newCache(t, Options{})
	refresh(t, c, names, c)
	if n := testing.AllocsPerRun(10, func() { refresh(t, c, names, c) }); n != 0 {
		t.Errorf("a refresh of known names allocates %v times", n)
	}
}
