package pmcd

import (
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"time"
	"weak"
)

// The figures of memory are what the last garbage collection has found to be in
// use. If memory counted that has become garbage since, or that the Go runtime keeps
// for later, a daemon would seem to leak. So a fetch runs a collection if there may
// be new garbage. Collections for fetches take less than a hundredth of the time, see
// collect.

const (
	// minGarbage is the number of bytes that must have been allocated since the last
	// collection for another one.
	minGarbage = 64 << 10
	// minGCInterval is the shortest time between two collections for fetches.
	minGCInterval = 100 * time.Millisecond
	// maxGCInterval is the time after which a fetch runs a collection even if less
	// than minGarbage was allocated: objects may have been released.
	maxGCInterval = 10 * time.Second
	// maxGCShare limits collections for fetches to one part in maxGCShare of the
	// time. While they run they use a quarter of the CPUs, and those that are idle.
	maxGCShare = 100
)

// inUseMetrics are the metrics of the runtime that pmcd.datasize is the sum of:
// objects, stacks and variables.
var inUseMetrics = [...]string{
	"/gc/heap/live:bytes",
	"/gc/scan/stack:bytes",
	"/gc/scan/globals:bytes",
}

// dataSize returns the memory in use, in KiB.
func dataSize(f *fetch) uint32 {
	u := f.a.usage
	u.live.collect()
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.memory[:]
	metrics.Read(s)
	var sum uint64
	for i := range s {
		if s[i].Value.Kind() == metrics.KindUint64 {
			sum += s[i].Value.Uint64()
		}
	}
	return uint32(min(sum/1024, math.MaxUint32))
}

// liveObjects counts the objects that survived the last garbage collection, by
// size. It is the difference of two counters of the runtime: of allocated objects,
// read when a collection has ended, and of freed objects, read at the time of a
// fetch, because dead objects are swept and counted until the next collection starts.
type liveObjects struct {
	// A fetch may run a collection from notBefore on; lastGC is the time of the last
	// one that a fetch ran.
	collecting        sync.Mutex // held while a fetch may run one; guards the following
	notBefore, lastGC time.Time

	mu             sync.Mutex // guards the following: cleanups run on a goroutine of the runtime
	allocs         [3]metrics.Sample
	frees          [1]metrics.Sample
	cycle          uint64   // number of the last collection whose end was recorded
	allocated      []uint64 // objects allocated up to the end of that collection, by bucket
	allocatedBytes uint64   // bytes allocated up to then
	bounds         []float64
}

func newLiveObjects() *liveObjects {
	l := new(liveObjects)
	l.allocs[0].Name = "/gc/heap/allocs-by-size:bytes"
	l.allocs[1].Name = "/gc/heap/allocs:bytes"
	l.allocs[2].Name = "/gc/cycles/total:gc-cycles"
	l.frees[0].Name = "/gc/heap/frees-by-size:bytes"
	l.onEachGC()
	return l
}

// A sentinel is garbage as soon as it is allocated, so its cleanup runs after the
// next collection. It has a pointer so that the runtime does not allocate it in one
// block with other tiny objects.
type sentinel struct{ _ *sentinel }

// onEachGC arranges that recordAllocs is called after each garbage collection, as
// long as l is in use.
func (l *liveObjects) onEachGC() {
	runtime.AddCleanup(new(sentinel), func(w weak.Pointer[liveObjects]) {
		if l := w.Value(); l != nil {
			l.recordAllocs()
			l.onEachGC()
		}
	}, weak.Make(l))
}

// collect runs garbage collections, unless little was allocated since the last one or
// the last one for a fetch was too short a time ago. It does not wait for another
// fetch that runs them.
func (l *liveObjects) collect() {
	if !l.collecting.TryLock() {
		return
	}
	defer l.collecting.Unlock()
	start := time.Now()
	if start.Before(l.notBefore) || start.Sub(l.lastGC) < maxGCInterval && !l.mayHaveGarbage() {
		return
	}
	// It takes a second collection to free the objects in a sync.Pool.
	runtime.GC()
	runtime.GC()
	l.recordAllocs()
	now := time.Now()
	l.lastGC, l.notBefore = now, now.Add(max(minGCInterval, maxGCShare*now.Sub(start)))
}

// mayHaveGarbage reports whether minGarbage bytes were allocated since the last
// collection.
func (l *liveObjects) mayHaveGarbage() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	metrics.Read(l.allocs[1:])
	v := l.allocs[1].Value
	return l.allocated == nil || v.Kind() == metrics.KindUint64 && v.Uint64()-l.allocatedBytes >= minGarbage
}

// recordAllocs reads the counters of allocated objects after a collection, unless
// that was done for this collection before: the cleanup of a sentinel may run late,
// and objects that were allocated meanwhile have survived no collection.
func (l *liveObjects) recordAllocs() {
	l.mu.Lock()
	defer l.mu.Unlock()
	metrics.Read(l.allocs[:])
	if v := l.allocs[2].Value; v.Kind() == metrics.KindUint64 {
		if l.allocated != nil && v.Uint64() == l.cycle {
			return
		}
		l.cycle = v.Uint64()
	}
	if v := l.allocs[0].Value; v.Kind() == metrics.KindFloat64Histogram {
		h := v.Float64Histogram()
		l.allocated, l.bounds = append(l.allocated[:0], h.Counts...), h.Buckets
	}
	if v := l.allocs[1].Value; v.Kind() == metrics.KindUint64 {
		l.allocatedBytes = v.Uint64()
	}
}

// bySize returns the number of live objects in each size class.
func (l *liveObjects) bySize() (n [numBuffers]int32) {
	l.collect()
	l.mu.Lock()
	defer l.mu.Unlock()
	metrics.Read(l.frees[:])
	if l.frees[0].Value.Kind() != metrics.KindFloat64Histogram {
		return n
	}
	freed := l.frees[0].Value.Float64Histogram()
	if !slices.Equal(freed.Buckets, l.bounds) {
		return n
	}
	class := 0
	for i, made := range l.allocated {
		// The sizes in a bucket are below the lower bound of the next bucket.
		for class < numBuffers-1 && l.bounds[i+1]-1 > float64(bufferSizes[class]) {
			class++
		}
		live := made - min(made, freed.Counts[i])
		n[class] = int32(min(uint64(n[class])+live, math.MaxInt32))
	}
	return n
}
