package main

import (
	"fmt"
	"runtime"
	"testing"
)

// The Go runtime has one thread more than there are CPUs, or than GOMAXPROCS says.
func TestAddThread(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for cpus, want := range map[int]int{1: 2, 2: 3, 3: 4} {
		t.Run(fmt.Sprint(cpus), func(t *testing.T) {
			runtime.GOMAXPROCS(cpus)
			addThread()
			if got := runtime.GOMAXPROCS(0); got != want {
				t.Errorf("got %d threads, want %d", got, want)
			}
		})
	}
}
