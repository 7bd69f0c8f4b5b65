package cache

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// Hide, Cull and the like change the states of instances.
func TestStates(t *testing.T) {
	c := newCache(t, Options{})
	add(t, c, "a", "b")
	if id, err := c.Add("b", 42); id != 1 || err != nil {
		t.Fatal(id, err)
	}
	want := func(active, inactive int, ids ...int32) {
		t.Helper()
		if a, i := c.Size(); a != active || i != inactive {
			t.Errorf("%d active and %d inactive, want %d and %d", a, i, active, inactive)
		}
		wantIDs(t, "active", slices.Collect(c.Active()), ids...)
		checkConsistent(t, c)
	}
	want(2, 0, 0, 1)
	if err := c.Hide("a"); err != nil {
		t.Fatal(err)
	}
	want(1, 1, 1)
	if e, err := c.Lookup(0); err != nil || e.State != Inactive || e.Name != "a" {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := c.Lookup(1); err != nil || e != (Entry{1, "b", "", Active, 42}) {
		t.Errorf("%+v, %v", e, err)
	}
	if n := c.HideAll(); n != 1 {
		t.Errorf("%d hidden", n)
	}
	want(0, 2)
	if n := c.ActivateAll(); n != 2 {
		t.Errorf("%d activated", n)
	}
	want(2, 0, 0, 1)
	if err := c.Cull("a"); err != nil {
		t.Fatal(err)
	}
	want(1, 0, 1)
	for _, err := range []error{c.Cull("a"), c.Hide("a")} {
		wantErr(t, "culled", err, pdu.ErrnoInst)
	}
	if n := c.CullAll(); n != 1 {
		t.Errorf("%d culled", n)
	}
	want(0, 0)
	if n := c.ActivateAll(); n != 0 {
		t.Errorf("%d activated in an empty cache", n)
	}
	if _, err := c.Lookup(1); !errors.Is(err, pdu.ErrnoInst) {
		t.Error(err)
	}
	wantIDs(t, "after CullAll", add(t, c, "a"), 2)

	add(t, c, "b", "c", "d")
	for id := range c.Active() {
		if id == 3 {
			c.Cull("c")
			c.Hide("b")
		}
		if id == 4 || id > 5 {
			t.Errorf("%d is active", id)
		}
		if id == 5 {
			break
		}
	}
	want(2, 1, 2, 5)
}

// Ids are assigned as in C.
func TestIDs(t *testing.T) {
	c := newCache(t, Options{})
	wantIDs(t, "append", add(t, c, "a", "b", "c"), 0, 1, 2)
	c.Cull("c")
	wantIDs(t, "append after a cull", add(t, c, "d"), 3)
	c.Reuse()
	c.Cull("b")
	wantIDs(t, "culled ids are not free", add(t, c, "e"), 4)
	c.Reorg()
	wantIDs(t, "lowest free ones", add(t, c, "f", "g", "h"), 1, 2, 5)

	c = newCache(t, Options{})
	wantErr(t, "negative", c.Resize(-1), pdu.ErrnoSign)
	wantErr(t, "2", c.Resize(2), nil)
	add(t, c, "a", "b")
	c.Cull("a")
	c.Reorg()
	wantIDs(t, "highest id, then the lowest free one", add(t, c, "c", "d"), 2, 0)
	_, err := c.Add("e", nil)
	wantErr(t, "none is free", err, pdu.ErrnoGeneric)
	wantErr(t, "1, with 2 in use", c.Resize(1), pdu.ErrnoTooBig)
	wantErr(t, "3", c.Resize(3), nil)
	wantIDs(t, "one more", add(t, c, "e"), 3)

	// The 65th entry frees the ids of culled instances.
	c = newCache(t, Options{})
	c.Reuse()
	for i := range 64 {
		add(t, c, fmt.Sprint(i))
	}
	c.Cull("7")
	c.Cull("9")
	wantIDs(t, "the 65th", add(t, c, "x"), 64)
	wantIDs(t, "the 66th", add(t, c, "y", "z", "more"), 7, 9, 65)

	// The id of a key may be any. Add continues with the lowest free ids.
	c = newCache(t, Options{})
	add(t, c, "a", "b")
	if _, err := c.AddKey("eth0", nil, nil); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, "after a key", add(t, c, "c"), 2)
	wantIDs(t, "sorted", slices.Collect(c.Active()), 0, 1, 2, 2142326192)
}

// AddKey finds instances by name and key, and tries 10 ids.
func TestKeys(t *testing.T) {
	c := newCache(t, Options{})
	id, err := c.AddKey("name", []byte("key"), 1)
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.AddKey("name", []byte("key"), 2)
	if err != nil || again != id {
		t.Errorf("again: %d, %v, want %d", again, err, id)
	}
	if e, err := c.LookupKey([]byte("key")); err != nil || e != (Entry{id, "name", "key", Active, 2}) {
		t.Errorf("%+v, %v", e, err)
	}
	_, err = c.AddKey("name", []byte("other"), nil)
	wantErr(t, "another key", err, pdu.ErrnoInst)
	_, err = c.AddKey("name", nil, nil)
	wantErr(t, "no key", err, pdu.ErrnoInst)
	_, err = c.AddKey("other", []byte("key"), nil)
	wantErr(t, "another name", err, pdu.ErrnoInst)
	_, err = c.AddKey("name too", []byte("key"), nil)
	wantErr(t, "the same short name", err, pdu.ErrnoEINVAL)
	for _, key := range []string{"", "name", "kex"} {
		_, err = c.LookupKey([]byte(key))
		wantErr(t, key, err, pdu.ErrnoInst)
	}
	add(t, c, "name")
	_, err = c.LookupKey([]byte("key"))
	wantErr(t, "Add forgets the key", err, pdu.ErrnoInst)

	if _, err := c.AddKey("eth0", nil, nil); err != nil {
		t.Fatal(err)
	}
	if e, err := c.LookupKey([]byte("eth0")); err != nil || e.Name != "eth0" {
		t.Errorf("%+v, %v", e, err)
	}

	// AddKey tries ten ids. With a limit of 1 and id 0 in use, a key gets id 1 at
	// the first try with an odd hash.
	found := make(map[int]bool)
	for i := 0; len(found) < 2; i++ {
		key, tries := fmt.Sprint("key", i), 1
		for h := hash(key, 0); h%2 == 0 && tries < 12; tries++ {
			h = hash(key, h)
		}
		if tries != 10 && tries != 11 || found[tries] {
			continue
		}
		found[tries] = true
		c = newCache(t, Options{})
		c.Resize(1)
		add(t, c, "a")
		if id, err := c.AddKey("b", []byte(key), nil); (err == nil) != (tries == 10) || err == nil && id != 1 {
			t.Errorf("key %s, odd hash at try %d: %d, %v", key, tries, id, err)
		}
	}
	c = newCache(t, Options{})
	c.Resize(1)
	add(t, c, "a", "b")
	_, err = c.AddKey("c", nil, nil)
	wantErr(t, "all ids in use", err, pdu.ErrnoGeneric)
	c.Cull("a")
	if id, err := c.AddKey("c", nil, nil); err != nil || id != 0 {
		t.Errorf("one id free: %d, %v", id, err)
	}
	checkConsistent(t, c)
}

// Purge removes instances by age since the first save after their last Add.
func TestPurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, Options{})
		add(t, c, "old", "hidden", "busy")
		c.Hide("hidden")
		time.Sleep(time.Hour)
		if n := c.Purge(0); n != 0 {
			t.Errorf("%d purged before a save", n)
		}
		if n, err := c.Save(); n != 3 || err != nil {
			t.Fatal(n, err)
		}
		time.Sleep(time.Minute)
		add(t, c, "busy")
		if n, err := c.Save(); n != 0 || err != nil {
			t.Fatalf("Save wrote %d, %v, although nothing was added", n, err)
		}
		if n, err := c.Sync(); n != 3 || err != nil {
			t.Fatalf("Sync wrote %d, %v, want 3 for a new stamp", n, err)
		}
		time.Sleep(time.Second)
		if n := c.Purge(61 * time.Second); n != 0 {
			t.Errorf("%d of age 61 s purged, with that limit", n)
		}
		var names []string
		n := c.PurgeFunc(60*time.Second, func(e Entry) { names = append(names, e.Name) })
		if n != 2 || !slices.Equal(names, []string{"old", "hidden"}) {
			t.Errorf("purged %d, %q", n, names)
		}
		if n := c.Purge(60 * time.Second); n != 0 {
			t.Errorf("purged %d again", n)
		}
		wantIDs(t, "after Purge", slices.Collect(c.Active()), 2)
		if n, err := c.Save(); n != 1 || err != nil {
			t.Errorf("Save wrote %d, %v after Purge", n, err)
		}
		checkConsistent(t, c)
	})
}

// Save and Sync write only if something has changed.
func TestDirty(t *testing.T) {
	for _, c := range []struct {
		what       string
		do         func(*Cache)
		save, sync int
	}{
		{"nothing", func(*Cache) {}, 0, 0},
		{"add", func(c *Cache) { c.Add("new", nil) }, 3, 0},
		{"add a key", func(c *Cache) { c.AddKey("new", nil, nil) }, 3, 0},
		{"add again", func(c *Cache) { c.Add("a", nil) }, 0, 2},
		{"failing add", func(c *Cache) { c.Add("a a", nil) }, 0, 0},
		{"hide", func(c *Cache) { c.Hide("a") }, 0, 0},
		{"hide and activate all", func(c *Cache) { c.HideAll(); c.ActivateAll() }, 0, 0},
		{"cull", func(c *Cache) { c.Cull("a") }, 1, 0},
		{"cull all", func(c *Cache) { c.CullAll() }, 0, 0},
		{"as many inactive as the limit", func(c *Cache) { c.Hide("a"); c.LimitInactive(1) }, 0, 0},
		{"more inactive than the limit", func(c *Cache) { c.Hide("a"); c.LimitInactive(0) }, 1, 0},
		{"purge", func(c *Cache) { c.Purge(0) }, 0, 0},
		{"resize", func(c *Cache) { c.Resize(100) }, 0, 2},
		{"reuse", func(c *Cache) { c.Reuse() }, 0, 0},
		{"load", func(c *Cache) { c.Load() }, 0, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			k := newCache(t, Options{})
			add(t, k, "a", "b")
			if n, err := k.Save(); n != 2 || err != nil {
				t.Fatal(n, err)
			}
			c.do(k)
			save, err1 := k.Save()
			sync, err2 := k.Sync()
			if err1 != nil || err2 != nil || save != c.save || sync != c.sync {
				t.Errorf("Save %d, %v, Sync %d, %v; want %d and %d", save, err1, sync, err2, c.save, c.sync)
			}
			active, inactive := k.Size()
			if n, err := k.Write(); err != nil || n != active+inactive {
				t.Errorf("Write %d, %v of %d", n, err, active+inactive)
			}
		})
	}
	// A file without instances is written, too.
	k := newCache(t, Options{})
	add(t, k, "a")
	k.Save()
	k.CullAll()
	k.Save()
	path, _ := k.Path()
	if b, err := os.ReadFile(path); err != nil || string(b) != "2 0 2147483647\n" {
		t.Errorf("%q, %v", b, err)
	}
}
