package transport

import (
	"sync"
	"testing"
)

// No Notice is lost that is added while others are taken.
func TestNoticesConcurrently(t *testing.T) {
	const n, goroutines = 2000, 8
	var q Notices
	var adding sync.WaitGroup
	for g := range int32(goroutines) {
		adding.Go(func() {
			for i := range int32(n) {
				q.Add(Notice{Client: g*n + i, End: true})
			}
		})
	}
	added := make(chan struct{})
	go func() {
		adding.Wait()
		close(added)
	}()
	taken := 0
	for over := false; !over; {
		select {
		case <-added:
			over = true
		default:
		}
		taken += len(q.Take())
	}
	if taken != n*goroutines || q.Any() {
		t.Errorf("%d of %d were taken, and others are left: %t", taken, n*goroutines, q.Any())
	}
}
