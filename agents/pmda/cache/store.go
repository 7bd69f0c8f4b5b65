package cache

import (
	"slices"
	"strings"

	"github.com/gopcp/pmcd/pdu"
)

// Add adds an instance, or makes it active if it exists already, and returns its
// id. In both cases data replaces the data of the instance, and its key in the file
// is removed. It is pmdaCacheStore(PMDA_CACHE_ADD).
//
// The error is -EINVAL if another instance has the same short name, and
// PM_ERR_GENERIC if the name is empty or no id is free.
func (c *Cache) Add(name string, data any) (int32, error) {
	e, matches := c.find(name)
	if e == nil {
		if name == "" {
			return 0, pdu.ErrnoGeneric
		}
		inst, ok := c.nextInst()
		if !ok {
			return 0, pdu.ErrnoGeneric
		}
		e = c.insert(name, inst)
		e.temporary = c.loadErr != nil
		c.dirty = true
	} else if !matches {
		return 0, pdu.ErrnoEINVAL
	}
	e.State, e.Data, e.stamp, e.key = Active, data, 0, ""
	return e.Inst, nil
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
	// before it when others are inserted, so the next search starts there.
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
	c.byName[shortName(name)] = e
	if n := len(c.list); n > 0 && c.list[n-1].Inst > inst {
		c.sorted = false
	}
	c.list = append(c.list, e)
	if c.loadErr == nil {
		c.last = max(c.last, inst)
	}
	return e
}

// Hide makes an instance inactive (PMDA_CACHE_HIDE). The error is PM_ERR_INST if
// there is no such instance, and -EINVAL if an instance has the same short name but
// another name.
func (c *Cache) Hide(name string) error {
	switch e, matches := c.find(name); {
	case e == nil:
		return pdu.ErrnoInst
	case !matches:
		return pdu.ErrnoEINVAL
	default:
		e.State = Inactive
		return nil
	}
}

// HideAll makes all instances inactive and returns the number of those that were
// active.
func (c *Cache) HideAll() (n int) {
	for _, e := range c.list {
		if e.State == Active {
			e.State = Inactive
			n++
		}
	}
	return n
}

// LimitInactive removes all inactive instances and frees their ids, if there are more
// than max, and returns the number of those that it removed. It is for an agent whose
// instances come and go. It calls LimitInactive while those that exist are active: at the end
// of a refresh, or before HideAll.
func (c *Cache) LimitInactive(max int) (n int) {
	if len(c.list) <= max {
		return 0 // without counting
	}
	if _, n = c.Size(); n <= max {
		return 0
	}
	c.list = slices.DeleteFunc(c.list, func(e *entry) bool {
		if e.State == Inactive {
			c.forget(e)
		}
		return e.State == Inactive
	})
	c.denseLen, c.dirty = 0, true
	return n
}

// forget removes an entry from the maps.
func (c *Cache) forget(e *entry) {
	delete(c.byInst, e.Inst)
	delete(c.byName, shortName(e.Name))
}
