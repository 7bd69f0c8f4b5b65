package pmcd

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

var sink [][]byte

// The figures of memory count what is in use, but not garbage, nor memory that the
// runtime keeps.
func TestMemoryInUse(t *testing.T) {
	// A collection of the runtime's own that ends while objects are allocated would
	// count some of them as in use until the next one, 10 s later at most.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	a := newAgent(newHost())
	size := func() (kib int64) {
		return values(t, a, root, includeAll, pmidOf(t, "pmcd.datasize"))[0].value.(int64)
	}
	// Objects in the size class up to 8 KiB, that of the objects allocated below.
	blocks := func() (n int64) {
		for _, v := range values(t, a, root, includeAll, pmidOf(t, "pmcd.buf.alloc")) {
			if v.inst == 8192 {
				n = v.value.(int64)
			}
		}
		return n
	}
	// look fetches both metrics. It resets notBefore as if time had passed.
	look := func() (int64, int64) {
		a.usage.live.notBefore = time.Time{}
		kib := size()
		a.usage.live.notBefore = time.Time{}
		return kib, blocks()
	}
	make8K := func(n int) {
		for range n {
			sink = append(sink, make([]byte, 8000))
		}
	}
	look()
	startSize, startBlocks := look()
	for round := range 3 {
		make8K(1000) // 8 MB
		sink = nil
		if kib, n := look(); kib > startSize+128 || n > startBlocks+16 {
			t.Errorf("round %d: garbage counts: %d KiB, then %d; %d blocks, then %d", round, startSize, kib, startBlocks, n)
		}
	}
	make8K(1000)
	if kib, n := look(); kib < startSize+7000 || n < startBlocks+984 || n > startBlocks+1016 {
		t.Errorf("memory in use does not count: %d KiB, then %d; %d blocks, then %d", startSize, kib, startBlocks, n)
	}
	runtime.KeepAlive(sink)
	sink = nil
	a.usage.live.lastGC = time.Time{}
	if kib, n := look(); kib > startSize+128 || n > startBlocks+16 {
		t.Errorf("after the release: %d KiB, then %d; %d blocks, then %d", startSize, kib, startBlocks, n)
	}

	// Without allocations there is no collection, and with allocations there are
	// fewer than fetches.
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	kib, n := look()
	a.usage.live.notBefore, a.usage.live.lastGC = time.Time{}, time.Now()
	for range 20 {
		if k, m := size(), blocks(); k != kib || m != n {
			t.Errorf("an idle process: %d KiB, then %d; %d blocks, then %d", kib, k, n, m)
		}
	}
	a.usage.live.notBefore = time.Now().Add(time.Hour)
	for range 20 {
		make8K(10)
		size()
	}
	runtime.ReadMemStats(&after)
	if n := after.NumGC - before.NumGC; n > 4 {
		t.Errorf("%d collections", n)
	}
	sink = nil
}

// A cleanup that runs late does not take garbage for objects in use.
func TestLateCleanup(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // no collection meanwhile
	l := newLiveObjects()
	l.collect()
	for range 200 {
		sink = append(sink, make([]byte, 8000))
	}
	sink = nil
	l.recordAllocs() // as the cleanup of the collection calls it
	if !l.mayHaveGarbage() {
		t.Error("1.6 MB were allocated since the last collection, and do not count")
	}
}
