package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

// Collections that follow each other closely let the heap grow; a long pause ends that.
func TestHeapAdapter(t *testing.T) {
	now := time.Now()
	h := &heapAdapter{percent: calmPercent}
	for i, step := range []struct {
		pause time.Duration
		want  int
	}{
		{0, calmPercent}, // the first, which the new percentage may cause
		{2 * busyInterval, calmPercent},
		{busyInterval / 2, busyPercent},
		{4 * busyInterval, busyPercent}, // the same load, with the larger heap
		{calmInterval * 2, calmPercent},
		{4 * busyInterval, calmPercent},
	} {
		now = now.Add(step.pause)
		before := h.percent
		if changed := h.collected(now); h.percent != step.want || changed != (before != step.want) {
			t.Errorf("step %d: %d percent, changed %v; want %d", i, h.percent, changed, step.want)
		}
	}
}

// Collections of the process are seen, each of them, not only the first.
func TestHeapAdapterFinalizer(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(calmPercent))
	runtime.SetFinalizer(&heapAdapter{percent: calmPercent}, (*heapAdapter).finalize)
	for end := time.Now().Add(testutil.Hangs); percent() != busyPercent; runtime.GC() {
		if time.Now().After(end) {
			t.Fatal("collections one after another have changed nothing")
		}
	}
}

func percent() int {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return int(s[0].Value.Uint64())
}
