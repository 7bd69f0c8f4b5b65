package main

import (
	"testing"

	"github.com/gopcp/pmcd/daemon"
)

// Only what clients do not take yet is added to what is in use, and only bytes count.
func TestMemoryLimit(t *testing.T) {
	limits := []daemon.LimitStatus{
		{Name: "clients", Used: 7, Limit: 1000},
		{Name: "profiles", Unit: "bytes", Used: 10 << 20, Limit: 30 << 20},
		{Name: "large replies", Unit: "bytes", Limit: 64 << 20},
	}
	for group, spare := range map[int64]int64{0: spareMemory, 1 << 40: spareMemory, 64 << 20: spareMemory / 8} {
		if got, want := memoryLimit(50<<20, limits, group), spare+(50+20+64)<<20; got != want {
			t.Errorf("limit %d with %d for the control group, want %d", got, group, want)
		}
	}
}
