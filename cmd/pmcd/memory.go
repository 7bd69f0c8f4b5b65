package main

import (
	"math"
	"runtime/debug"
	"runtime/metrics"

	"github.com/gopcp/pmcd/daemon"
)

// spareMemory is how much memory the Go runtime may use for garbage and stacks, in
// addition to the memory that is in use when there is little load. If the memory of the
// control group is limited, it is a part of that (daemon.PartOf). With 96 MiB, 10,000 hostile
// clients made pmcd take 261 MB more, above the limit of 256.
const spareMemory = 88 << 20

// limitMemory makes the garbage collector work more when pmcd takes more memory than the
// limits for clients allow. It is called after the configuration was loaded, because no
// limit counts the memory for that. The control group may use so many bytes, or any number if
// that is 0.
func limitMemory(limits []daemon.LimitStatus, group int64) {
	debug.SetMemoryLimit(memoryLimit(liveHeap(), limits, group))
}

// memoryLimit returns the limit for a pmcd whose heap has live bytes.
func memoryLimit(live int64, limits []daemon.LimitStatus, group int64) int64 {
	limit := daemon.PartOf(spareMemory, group) + live
	for _, l := range limits {
		if l.Unit == "bytes" {
			limit += l.Limit - l.Used
		}
	}
	return limit
}

// liveHeap returns how many bytes of the heap the last garbage collection has found in
// use.
func liveHeap() int64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(s[0].Value.Uint64())
}

// memoryIsLimited reports whether the process was started with a limit (GOMEMLIMIT). It
// is called before limitMemory.
func memoryIsLimited() bool { return debug.SetMemoryLimit(-1) != math.MaxInt64 }
