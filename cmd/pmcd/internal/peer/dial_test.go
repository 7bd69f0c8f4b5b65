package peer

import (
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// onThread never uses the main thread, and no thread twice.
func TestOnThread(t *testing.T) {
	var mu sync.Mutex
	seen := make(map[int]bool)
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			done := make(chan struct{})
			go onThread(func() {
				defer close(done)
				mu.Lock()
				defer mu.Unlock()
				if seen[unix.Gettid()] || unix.Gettid() == unix.Getpid() {
					t.Errorf("thread %d of process %d", unix.Gettid(), unix.Getpid())
				}
				seen[unix.Gettid()] = true
				runtime.Gosched()
			})
			<-done
		})
	}
	all.Wait()
}
