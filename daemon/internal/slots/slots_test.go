package slots

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/internal/fairqueue"
)

// key returns the key of a member of a group.
func key(group, member uint64) *fairqueue.Key {
	return &fairqueue.Key{Group: fairqueue.Group{ID: group}, Member: member}
}

// full returns a Pool whose slots are held.
func full() (p *Pool, held []*Slot) {
	p = New()
	for i := range p.size {
		s := p.Slot(key(1, uint64(i)))
		s.Take()
		held = append(held, s)
	}
	return p, held
}

// A request waits while all slots are held.
func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, held := full()
		if held[0].Take(); p.InUse() != len(held) || p.Busy() {
			t.Error("a second Take has taken another slot")
		}
		var got atomic.Bool
		s := p.Slot(key(2, 1))
		go func() {
			s.Take()
			got.Store(true)
		}()
		synctest.Wait()
		if got.Load() || !p.Busy() {
			t.Error("there are more slots than there should be")
		}
		if !held[0].Release() || held[0].Release() {
			t.Error("Release reports whether there was a slot")
		}
		synctest.Wait()
		if !got.Load() || p.Busy() {
			t.Error("the slot was not given to the one that waits")
		}
		s.Release()
		for _, h := range held[1:] {
			h.Release()
		}
		if n := p.InUse(); n != 0 {
			t.Errorf("%d slots in use at the end", n)
		}
	})
}

// Groups and members take turns. In a group, those that have begun come first, in the order
// in which they have come.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, held := full()
		for _, h := range held[1:] {
			defer h.Release()
		}
		var order []string
		wait := func(name string, k *fairqueue.Key, take func(*Slot)) {
			go func() {
				s := p.Slot(k)
				take(s)
				order = append(order, name)
				s.Release()
			}()
			synctest.Wait()
		}
		for i := range 4 {
			wait(fmt.Sprintf("many %d", i), key(1, 1), (*Slot).Take)
		}
		wait("member", key(1, 2), (*Slot).Take)
		wait("begun 1", key(1, 3), (*Slot).TakeAgain)
		wait("begun 2", key(1, 1), (*Slot).TakeAgain)
		wait("other", key(2, 1), (*Slot).Take)
		held[0].Release()
		synctest.Wait()
		if want := []string{"begun 1", "other", "begun 2", "many 0", "member", "many 1", "many 2", "many 3"}; !slices.Equal(order, want) {
			t.Errorf("got %q, want %q", order, want)
		}
	})
}

// A slot that is held for long is not counted while others wait.
func TestLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, held := full()
		time.Sleep(time.Hour) // none waits
		began := time.Now()
		s := p.Slot(key(2, 1))
		s.Take()
		if d := time.Since(began); d < longTime || d > 2*longTime {
			t.Errorf("the wait took %v, want %v to %v", d, longTime, 2*longTime)
		}
		for _, h := range held {
			h.Release()
		}
		if n := p.InUse(); n != 1 {
			t.Errorf("%d slots in use, want 1", n)
		}
		s.Release()
	})
}

// A Pool that is closed has slots for all.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := full()
		var got atomic.Int32
		for i := range uint64(100) {
			go func() {
				s := p.Slot(key(i%3, i))
				s.Take()
				got.Add(1)
				s.Release()
			}()
		}
		synctest.Wait()
		if got.Load() != 0 {
			t.Error("the slots were not held")
		}
		p.Close()
		synctest.Wait()
		if n := got.Load(); n != 100 || p.Busy() {
			t.Errorf("%d of 100 have gone on", n)
		}
	})
}

// No slot is lost or given twice, whatever the clients do. The clock stands still, so none is
// held for long.
func TestStress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New()
		var wg sync.WaitGroup
		var running, most atomic.Int64
		for i := range uint64(8 * runtime.GOMAXPROCS(0)) {
			wg.Go(func() {
				s := p.Slot(key(i%5, i))
				for n := range 2000 {
					if n%3 == 0 {
						s.Take()
					} else {
						s.TakeAgain()
					}
					now := running.Add(1)
					for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
					}
					if n%16 == 0 {
						p.InUse() // the race detector sees whether it locks
						runtime.Gosched()
					}
					running.Add(-1)
					s.Release()
				}
			})
		}
		wg.Wait()
		if n := p.InUse(); n != 0 || p.Busy() || most.Load() != int64(p.size) {
			t.Errorf("%d slots in use at the end, busy: %v, %d at most, want %d", n, p.Busy(), most.Load(), p.size)
		}
	})
}

// Load names the group with the most requests that waited, however many groups there are.
func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, held := full()
		for i := range 4 * maxGroups {
			p.load.count(fairqueue.Group{ID: 7})
			p.load.count(fairqueue.Group{ID: 1000 + uint64(i)})
		}
		if n := len(p.load.groups); n > maxGroups {
			t.Errorf("%d groups are counted", n)
		}
		go func() {
			s := p.Slot(key(7, 1))
			s.Take()
			s.Release()
		}()
		synctest.Wait()
		time.Sleep(longTime/2 + 1)
		first := p.Load()
		time.Sleep(longTime / 2)
		held[0].Release()
		synctest.Wait()
		second := p.Load()
		if first.Most.ID != 7 || first.Waited != 8*maxGroups || first.Time != longTime/2 || first.OfMost < maxGroups || first.OfMost > 4*maxGroups {
			t.Errorf("while one waits: %+v", first)
		}
		if want := (Load{Time: longTime / 2, Waited: 1, Most: fairqueue.Group{ID: 7}, OfMost: 1}); second != want {
			t.Errorf("after that: %+v, want %+v", second, want)
		}
		if got := p.Load(); got != (Load{}) {
			t.Errorf("at the end: %+v", got)
		}
	})
}

// A group that comes when as many as can be counted have one request each takes the place of one.
func TestLoadOfLaterGroup(t *testing.T) {
	var l load
	for i := range maxGroups {
		l.count(fairqueue.Group{ID: 1000 + uint64(i)})
	}
	for range 3 {
		l.count(fairqueue.Group{ID: 7})
	}
	if n := l.groups[fairqueue.Group{ID: 7}]; n != 2 {
		t.Errorf("3 requests are counted as %d, want 2: the first one removes groups", n)
	}
}

func BenchmarkSlots(b *testing.B) {
	p := New()
	var n atomic.Uint64
	b.RunParallel(func(pb *testing.PB) {
		s := p.Slot(key(n.Add(1), 1))
		for pb.Next() {
			s.Take()
			s.Release()
		}
	})
}

// The number of slots follows GOMAXPROCS.
func TestResize(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	synctest.Test(t, func(t *testing.T) {
		p, held := full()
		var got atomic.Int32
		for i := range uint64(5) {
			go func() {
				s := p.Slot(key(2, i))
				s.Take()
				got.Add(1)
			}()
		}
		synctest.Wait()
		for _, step := range []struct{ procs, size, got int }{{4, 4, 0}, {6, 6, 2}, {1, 2, 2}} {
			runtime.GOMAXPROCS(step.procs)
			size := p.Resize()
			synctest.Wait()
			if n := int(got.Load()); size != step.size || n != step.got {
				t.Errorf("GOMAXPROCS=%d: %d slots, %d of those that waited have one; want %d, %d", step.procs, size, n, step.size, step.got)
			}
		}
		for _, h := range held {
			h.Release()
		}
		synctest.Wait()
		if n := got.Load(); n != 2 {
			t.Errorf("slots above the number were given back, and %d of those that waited have one, want 2", n)
		}
		p.Close()
	})
}
