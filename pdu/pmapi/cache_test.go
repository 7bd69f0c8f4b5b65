package pmapi

import (
	"sync"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// Requests use the cache at the same time. Each method has a goroutine of its own, so the race
// detector sees one that does not lock.
func TestCacheConcurrently(t *testing.T) {
	var c cache
	descs := map[pdu.PMID]pdu.Desc{1: {PMID: 1}}
	c.add(descs)
	var wg sync.WaitGroup
	for _, f := range []func(){func() { c.desc(1) }, func() { c.add(descs) }, c.drop} {
		wg.Go(f)
	}
	wg.Wait()
	if c.drop(); len(c.descs) != 0 {
		t.Errorf("%v after a drop", c.descs)
	}
}
