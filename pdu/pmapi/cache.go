package pmapi

import (
	"maps"
	"sync"

	"github.com/gopcp/pmcd/pdu"
)

// A cache has the descriptors that pmcd has sent. A request may read it at any time, and
// writes or drops it while it has acquired the Client. So it has nothing from before a state change that came after.
type cache struct {
	mu    sync.Mutex // guards what is below
	descs map[pdu.PMID]pdu.Desc
}

func (c *cache) desc(id pdu.PMID) (pdu.Desc, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, ok := c.descs[id]
	return d, ok
}

func (c *cache) add(descs map[pdu.PMID]pdu.Desc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.descs == nil {
		c.descs = make(map[pdu.PMID]pdu.Desc)
	}
	maps.Copy(c.descs, descs)
}

func (c *cache) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.descs = nil
}
