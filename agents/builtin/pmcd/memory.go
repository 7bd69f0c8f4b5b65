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

// What the process holds is what its last garbage collection has found to be in
// use. Memory that has become garbage since, and memory that the Go runtime
// keeps for later, would make a daemon look as if it leaked. A fetch has a
// collection done if there was work for it since the last one, and collections for
// fetches go on for less than a hundredth of the time: see collected.

const (
	// minGarbage is how many bytes are made before a collection is worth while.
	minGarbage = 64 << 10
	// minGCInterval is the shortest time between two collections for fetches.
	minGCInterval = 100 * time.Millisecond
	// maxGCInterval is after what time one is done for less: what was released.
	maxGCInterval = 10 * time.Second
	// maxGCShare is the part of the time that these may take: one in gcShare. They use
	// a quarter of the CPUs then, and those that are idle.
	maxGCShare = 100
)

// inUseMetrics are the parts of memory that pmcd.datasize is the sum of: objects, stacks
// and variables.
var inUseMetrics = [...]string{
	"/gc/heap/live:bytes",
	"/gc/scan/stack:bytes",
	"/gc/scan/globals:bytes",
}

// dataSize returns the memory that the process holds, in KiB.
func dataSize(f *fetch) uint32 {
	s := f.a.usage.memory[:]
	f.a.usage.live.collect()
	metrics.Read(s)
	var sum uint64
	for i := range s {
		if s[i].Value.Kind() == metrics.KindUint64 {
			sum += s[i].Value.Uint64()
		}
	}
	return uint32(min(sum/1024, math.MaxUint32))
}

// liveObjects counts the objects that the last garbage collection has left, by
// size. The runtime counts those that were made and those that were freed: the
// former are taken when a collection has ended, the latter when they are asked
// for, as the memory of dead objects is swept, and counted, until the next
// collection starts.
type liveObjects struct {
	// next is when a fetch may have a collection done, and last when one had. Fetches
	// come one at a time.
	notBefore, lastGC time.Time

	mu             sync.Mutex // guards the following
	allocs         [2]metrics.Sample
	frees          [1]metrics.Sample
	allocated      []uint64 // when the last collection ended, by bucket
	allocatedBytes uint64   // all that was made by then
	bounds         []float64
}

func newLiveObjects() *liveObjects {
	l := new(liveObjects)
	l.allocs[0].Name = "/gc/heap/allocs-by-size:bytes"
	l.allocs[1].Name = "/gc/heap/allocs:bytes"
	l.frees[0].Name = "/gc/heap/frees-by-size:bytes"
	l.onEachGC()
	return l
}

// A sentinel is garbage as soon as it is made: the next collection finds it. The
// pointer keeps it out of memory that it would share with other objects.
type sentinel struct{ _ *sentinel }

// onEachGC has collected called after each garbage collection, as long as l is in
// use.
func (l *liveObjects) onEachGC() {
	runtime.AddCleanup(new(sentinel), func(w weak.Pointer[liveObjects]) {
		if l := w.Value(); l != nil {
			l.recordAllocs()
			l.onEachGC()
		}
	}, weak.Make(l))
}

// collect has collections done, unless little was made since the last one or
// that of another fetch was just now.
func (l *liveObjects) collect() {
	start := time.Now()
	if start.Before(l.notBefore) || start.Sub(l.lastGC) < maxGCInterval && !l.mayHaveGarbage() {
		return
	}
	// What a sync.Pool keeps for later is found by the second.
	runtime.GC()
	runtime.GC()
	l.recordAllocs()
	now := time.Now()
	l.lastGC, l.notBefore = now, now.Add(max(minGCInterval, maxGCShare*now.Sub(start)))
}

// mayHaveGarbage reports whether there may be garbage.
func (l *liveObjects) mayHaveGarbage() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	metrics.Read(l.allocs[1:])
	v := l.allocs[1].Value
	return l.allocated == nil || v.Kind() == metrics.KindUint64 && v.Uint64()-l.allocatedBytes >= minGarbage
}

// recordAllocs notes what was made until now.
func (l *liveObjects) recordAllocs() {
	l.mu.Lock()
	defer l.mu.Unlock()
	metrics.Read(l.allocs[:])
	if v := l.allocs[0].Value; v.Kind() == metrics.KindFloat64Histogram {
		h := v.Float64Histogram()
		l.allocated, l.bounds = append(l.allocated[:0], h.Counts...), h.Buckets
	}
	if v := l.allocs[1].Value; v.Kind() == metrics.KindUint64 {
		l.allocatedBytes = v.Uint64()
	}
}

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
		// Sizes of the bucket are below the next bucket's lower bound.
		for class < numBuffers-1 && l.bounds[i+1]-1 > float64(bufferSizes[class]) {
			class++
		}
		live := made - min(made, freed.Counts[i])
		n[class] = int32(min(uint64(n[class])+live, math.MaxInt32))
	}
	return n
}
