package cache

import (
	"slices"
	"strings"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// Add adds an instance, or makes it active if it exists already, and returns its
// id. In both cases data replaces the data of the instance, and its key is removed.
// It is pmdaCacheStore(PMDA_CACHE_ADD).
//
// The error is -EINVAL if another instance has the same short name, and
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

// AddKey is like Add, but the id of a new instance is a hash of key, or of name if
// key is empty, and so it is the same on all hosts. If another instance has this
// id, AddKey tries another hash, up to 10 in all. After AddKey has added an
// instance, Add assigns the lowest free id. It is
// pmdaCacheStoreKey(PMDA_CACHE_ADD).
//
// The error is PM_ERR_INST if the instance exists with another key, or another
// instance has this key; PM_ERR_GENERIC if the name is empty or all ids that were
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

// hashInst returns a free id for a key. C PCP before version 7 ignores max here.
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
// C PCP differs: 7.2.1 may assign max+1. If a file sets max to less than an id in
// it, C assigns higher ids nevertheless.
func (c *Cache) nextInst() (inst int32, ok bool) {
	if c.loadErr != nil {
		return c.nextTemporary()
	}
	if !c.reuse && c.last < c.max {
		return c.last + 1, true
	}
	c.reuse = true
	// Search the list for the first missing id. Entries before that position stay
	// before it when others are inserted, so the next search starts there. If an
	// id is in the list twice, because one of the entries is culled, the search
	// misses a free id, as in C.
	c.sort()
	for c.denseLen < len(c.list) && int(c.list[c.denseLen].Inst) <= c.denseLen {
		c.denseLen++
	}
	return int32(c.denseLen), c.denseLen <= int(c.max)
}

// insert adds an inactive entry. No other entry may have its name or id.
func (c *Cache) insert(name string, inst int32) *entry {
	name = strings.Clone(name) // it may be a part of the whole file in memory
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
	// C removes culled entries when it doubles the size of its hash table. Which
	// ids are free depends on that.
	if c.inserted++; c.inserted > c.reorgAt {
		c.reorgAt *= 2
		c.Reorg()
	}
	return e
}

// insertNew inserts an instance that is not from the file.
func (c *Cache) insertNew(name string, inst int32) *entry {
	e := c.insert(name, inst)
	e.temporary = c.loadErr != nil
	return e
}

// Hide makes an instance inactive (PMDA_CACHE_HIDE). The error is PM_ERR_INST if
// there is no such instance, and -EINVAL if an instance has the same short name but
// another name.
func (c *Cache) Hide(name string) error {
	e, err := c.findKnown(name)
	if err == nil {
		e.State = Inactive
	}
	return err
}

// Cull removes an instance (PMDA_CACHE_CULL). Its errors are those of Hide.
func (c *Cache) Cull(name string) error {
	e, err := c.findKnown(name)
	if err == nil {
		c.cull(e)
	}
	return err
}

// findKnown returns the entry for Hide and Cull.
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

// cull removes an entry, but leaves it in the list so that its id is not free.
func (c *Cache) cull(e *entry) {
	delete(c.byInst, e.Inst)
	delete(c.byName, c.shortName(e.Name))
	e.Entry = Entry{Inst: e.Inst, State: culled}
	c.dirtyInst = true
}

// HideAll makes all instances inactive and returns the number of those that were
// active.
func (c *Cache) HideAll() int { return c.setStates(Active, Inactive) }

// ActivateAll makes all instances active and returns the number of those that were
// inactive. Purge does not count it as activity.
func (c *Cache) ActivateAll() int { return c.setStates(Inactive, Active) }

// setStates changes the state of all instances in one state.
func (c *Cache) setStates(from, to State) (n int) {
	for _, e := range c.list {
		if e.State == from {
			e.State = to
			n++
		}
	}
	return n
}

// CullAll removes all instances and returns their number.
func (c *Cache) CullAll() int { return c.cullFunc(func(*entry) bool { return true }) }

// LimitInactive removes all inactive instances and frees their ids, if there are more
// than max, and returns the number of those that it removed. It is for an agent whose
// instances come and go. It calls LimitInactive when those that exist are active.
func (c *Cache) LimitInactive(max int) (n int) {
	if len(c.byInst) <= max {
		return 0 // without counting
	}
	if _, inactive := c.Size(); inactive > max {
		n = c.cullFunc(func(e *entry) bool { return e.State == Inactive })
		c.Reorg()
	}
	return n
}

// Purge removes the instances that have not been active for longer than age and
// returns their number. The age of an instance is the time, in whole seconds, since
// the first Save, Sync or Write after its last Add or AddKey. Purge keeps instances
// for which there was none.
//
// C PCP differs: the number includes instances that were culled before.
func (c *Cache) Purge(age time.Duration) int { return c.PurgeFunc(age, func(Entry) {}) }

// PurgeFunc is like Purge, and calls f for each instance before it removes the
// instance. f must not change the Cache.
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

// cullFunc removes the instances for which f returns true.
func (c *Cache) cullFunc(f func(*entry) bool) (n int) {
	for _, e := range c.list {
		if e.State != culled && f(e) {
			c.cull(e)
			n++
		}
	}
	return n
}

// Resize sets the highest id that may be assigned. The file has this limit. The
// error is PM_ERR_SIGN if it is negative, and PM_ERR_TOOBIG if an instance has a
// higher id, which includes culled instances whose id is not free yet.
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

// Reuse makes new instances get the lowest free id (PMDA_CACHE_REUSE). The file has
// this setting.
func (c *Cache) Reuse() { c.reuse = true }

// Reorg frees the ids of culled instances (PMDA_CACHE_REORG).
func (c *Cache) Reorg() {
	c.list = slices.DeleteFunc(c.list, func(e *entry) bool { return e.State == culled })
	c.denseLen = 0
}
