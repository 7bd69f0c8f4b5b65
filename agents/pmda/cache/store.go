package cache

import (
	"slices"
	"strings"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// Add adds an instance or, if it is known, makes it active again, and returns
// its id. In both cases data takes the place of what was attached to the
// instance, and its key is forgotten. It is pmdaCacheStore(PMDA_CACHE_ADD).
//
// The error is -EINVAL if there is another instance with the same short name,
// PM_ERR_GENERIC if the name is empty or no id is free.
func (c *Cache) Add(name string, data any) (int32, error) {
	e, matches := c.find(name)
	if e == nil {
		if err := c.checkName(name); err != nil {
			return 0, err
		}
		inst, ok := c.nextInst()
		if !ok {
			return 0, pdu.ErrnoGeneric
		}
		e = c.insertNew(name, inst)
		c.dirtyInst = true
	} else if !matches {
		return 0, pdu.ErrnoEINVAL
	}
	e.Key = ""
	c.activate(e, data)
	return e.Inst, nil
}

// AddKey is like Add, but a new instance gets an id that follows from key, or
// from name if key is empty: the same on each host. If another instance has
// that id already another one is tried, 10 in all. From the first new instance
// on, those of Add have the lowest free id. It is
// pmdaCacheStoreKey(PMDA_CACHE_ADD).
//
// The error is PM_ERR_INST if the name is known with another key or the key
// with another name, PM_ERR_GENERIC if the name is empty or all ids that were
// tried are in use.
func (c *Cache) AddKey(name string, key []byte, data any) (int32, error) {
	if len(key) == 0 {
		return addKey(c, name, name, data)
	}
	return addKey(c, name, key, data)
}

func addKey[B []byte | string](c *Cache, name string, key B, data any) (int32, error) {
	e, matches := c.find(name)
	switch {
	case e == nil:
		inst, err := hashInst(c, key)
		if err != nil {
			return 0, err
		}
		c.reuse = true
		if err := c.checkName(name); err != nil {
			return 0, err
		}
		e = c.insertNew(name, inst)
		e.Key = string(key)
		c.dirtyInst = true
	case e.Key != string(key):
		return 0, pdu.ErrnoInst
	case !matches:
		return 0, pdu.ErrnoEINVAL
	}
	c.activate(e, data)
	return e.Inst, nil
}

// hashInst returns a free id for a key. PCP before 7 did not know of max here.
func hashInst[B []byte | string](c *Cache, key B) (int32, error) {
	var h uint32
	for range 10 {
		h = hash(key, h)
		inst := int32(h % (uint32(c.max) + 1))
		e := c.byInst[inst]
		if e == nil {
			return inst, nil
		}
		if e.Key == string(key) {
			return 0, pdu.ErrnoInst
		}
	}
	return 0, pdu.ErrnoGeneric
}

func (c *Cache) checkName(name string) error {
	if name == "" && !c.opt.Strings {
		return pdu.ErrnoGeneric
	}
	return nil
}

func (c *Cache) activate(e *entry, data any) {
	e.State, e.Data, e.stamp = Active, data, 0
	c.dirtyStamp = true
}

// nextInst returns an id for a new instance.
//
// C differs: 7.2.1 may give one that is higher than max by 1, and if a file has
// set a max below ids that are there, C appends to them all the same.
func (c *Cache) nextInst() (inst int32, ok bool) {
	if c.loadErr != nil {
		return c.nextTemporary()
	}
	if !c.reuse && c.last < c.max {
		return c.last + 1, true
	}
	c.reuse = true
	// The list is walked for the first place where an id is missing. Entries
	// before it stay before it, whatever is inserted, so the next walk starts
	// where this one ends. An id can be in the list twice, once culled: as in C
	// the walk then passes one that is free.
	c.sort()
	for c.denseLen < len(c.list) && int(c.list[c.denseLen].Inst) <= c.denseLen {
		c.denseLen++
	}
	return int32(c.denseLen), c.denseLen <= int(c.max)
}

// insert adds an inactive entry, whose name and id are not there yet.
func (c *Cache) insert(name string, inst int32) *entry {
	name = strings.Clone(name) // it may be a part of a whole file
	e := &entry{Entry: Entry{Inst: inst, Name: name, State: Inactive}}
	c.byInst[inst] = e
	c.byName[c.shortName(name)] = e
	if n := len(c.list); n > 0 && c.list[n-1].Inst > inst {
		c.sorted = false
	}
	c.list = append(c.list, e)
	if c.loadErr == nil {
		c.last = max(c.last, inst)
	}
	// When C doubles its hash table it drops what was culled. That is a part of
	// how ids are given.
	if c.inserted++; c.inserted > c.reorgAt {
		c.reorgAt *= 2
		c.Reorg()
	}
	return e
}

// insertNew is insert for an instance that is not from the file.
func (c *Cache) insertNew(name string, inst int32) *entry {
	e := c.insert(name, inst)
	e.temporary = c.loadErr != nil
	return e
}

// Hide makes an instance inactive: PM_ERR_INST if there is none such, -EINVAL if
// there is another one with the same short name (PMDA_CACHE_HIDE).
func (c *Cache) Hide(name string) error {
	e, err := c.findKnown(name)
	if err == nil {
		e.State = Inactive
	}
	return err
}

// Cull removes an instance; errors are as with Hide (PMDA_CACHE_CULL).
func (c *Cache) Cull(name string) error {
	e, err := c.findKnown(name)
	if err == nil {
		c.cull(e)
	}
	return err
}

func (c *Cache) findKnown(name string) (*entry, error) {
	switch e, matches := c.find(name); {
	case e == nil:
		return nil, pdu.ErrnoInst
	case !matches:
		return nil, pdu.ErrnoEINVAL
	default:
		return e, nil
	}
}

// cull leaves of an entry what keeps its id from being given again.
func (c *Cache) cull(e *entry) {
	delete(c.byInst, e.Inst)
	delete(c.byName, c.shortName(e.Name))
	e.Entry = Entry{Inst: e.Inst, State: culled}
	c.dirtyInst = true
}

// HideAll makes all instances inactive and returns how many were not.
func (c *Cache) HideAll() int { return c.setStates(Active, Inactive) }

// ActivateAll makes all instances active and returns how many were not. It does
// not count as activity for Purge.
func (c *Cache) ActivateAll() int { return c.setStates(Inactive, Active) }

func (c *Cache) setStates(from, to State) (n int) {
	for _, e := range c.list {
		if e.State == from {
			e.State = to
			n++
		}
	}
	return n
}

// CullAll removes all instances and returns how many there were.
func (c *Cache) CullAll() int { return c.cullFunc(func(*entry) bool { return true }) }

// Purge removes instances that have not been active for the given time and
// returns how many. The time counts, in seconds, from the Save, Sync or Write
// that followed the last Add or AddKey; instances for which there was none yet
// stay.
//
// C differs: it counts those again that were culled before.
func (c *Cache) Purge(age time.Duration) int { return c.PurgeFunc(age, func(Entry) {}) }

// PurgeFunc is like Purge, and calls f with each instance that goes, before it
// does. f must not change the Cache.
func (c *Cache) PurgeFunc(age time.Duration, f func(Entry)) int {
	oldest := time.Now().Add(-age).Unix()
	return c.cullFunc(func(e *entry) bool {
		old := e.stamp != 0 && e.stamp < oldest
		if old {
			f(e.Entry)
		}
		return old
	})
}

func (c *Cache) cullFunc(f func(*entry) bool) (n int) {
	for _, e := range c.list {
		if e.State != culled && f(e) {
			c.cull(e)
			n++
		}
	}
	return n
}

// Resize sets the highest id that may be given. It is kept in the file. The
// error is PM_ERR_SIGN if it is negative, PM_ERR_TOOBIG if there is a higher
// one already, perhaps a culled one that is not free yet.
func (c *Cache) Resize(max int32) error {
	if max < 0 {
		return pdu.ErrnoSign
	}
	c.sort()
	if n := len(c.list); n > 0 && c.list[n-1].Inst > max {
		return pdu.ErrnoTooBig
	}
	c.max = max
	c.dirtyStamp = true
	return nil
}

// Reuse has new instances get the lowest free id from now on
// (PMDA_CACHE_REUSE). It is kept in the file.
func (c *Cache) Reuse() { c.reuse = true }

// Reorg frees the ids of culled instances (PMDA_CACHE_REORG).
func (c *Cache) Reorg() {
	c.list = slices.DeleteFunc(c.list, func(e *entry) bool { return e.State == culled })
	c.denseLen = 0
}
