package cache

import "slices"

// nextTemporary returns an id for a new instance while the ids in the file are
// unknown; see Load.
func (c *Cache) nextTemporary() (inst int32, ok bool) {
	n := int64(c.max) + 1
	for range n {
		inst = int32((n/2 + c.temporaryTried) % n)
		c.temporaryTried++
		if c.byInst[inst] == nil {
			return inst, true
		}
	}
	return 0, false
}

// takeTemporary removes the instances with temporary ids and returns them sorted by
// these ids. This is the order in which they were added, unless ids have wrapped.
func (c *Cache) takeTemporary() (taken []*entry) {
	c.sort()
	for _, e := range c.list {
		if e.temporary {
			c.forget(e)
			taken = append(taken, e)
		}
	}
	c.list = slices.DeleteFunc(c.list, func(e *entry) bool { return e.temporary })
	c.denseLen, c.temporaryTried = 0, 0
	return taken
}

// addTemporary adds these instances again, with the ids of the file or new ones.
func (c *Cache) addTemporary(taken []*entry) {
	for _, t := range taken {
		if _, err := c.Add(t.Name, t.Data); err != nil {
			c.warn("%s: %q: %w", c.indom, t.Name, err)
			continue
		}
		c.byName[shortName(t.Name)].State = t.State
	}
}
