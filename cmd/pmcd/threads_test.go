package main

import (
	"fmt"
	"runtime"
	"testing"
)

// The Go runtime has two threads at least, and as many as there are CPUs.
func TestUseTwoThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for cpus, want := range map[int]int{1: 2, 2: 2, 3: 3} {
		t.Run(fmt.Sprint(cpus), func(t *testing.T) {
			runtime.GOMAXPROCS(cpus)
			useTwoThreads()
			if got := runtime.GOMAXPROCS(0); got != want {
				t.Errorf("got %d threads, want %d", got, want)
			}
		})
	}
}
