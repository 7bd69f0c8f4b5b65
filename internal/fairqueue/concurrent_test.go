package fairqueue_test

import (
	"sync"
	"testing"

	"github.com/gopcp/pmcd/internal/fairqueue"
)

// Any goroutine may call the methods of a Limiter and of its Uses. Each has a goroutine of its
// own, so the race detector sees a method that does not lock.
func TestLimiterConcurrently(t *testing.T) {
	for _, l := range []*fairqueue.Limiter{fairqueue.NewLimiter(2), fairqueue.NewSharing(2)} {
		a, b, c := groupKey(1), groupKey(2), groupKey(3)
		first, second := start(l, 2, a), start(l, 2, b)
		var last fairqueue.Use
		var wg sync.WaitGroup
		for _, f := range []func(){
			func() {
				if !l.Start(&last, 2, &c) {
					<-last.Begun()
				}
				last.End()
			},
			first.End, first.End, second.End,
			func() { l.Used() }, func() { l.UsedBy(a.Group) }, func() { l.Waiting() }, func() { l.Next() },
			l.Open,
		} {
			wg.Go(f)
		}
		wg.Wait()
		if l.Used() != 0 || l.Waiting() != 0 {
			t.Errorf("%d used, %d waiting at the end", l.Used(), l.Waiting())
		}
	}
}
