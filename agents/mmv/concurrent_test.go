package mmv

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
)

// No update is lost, and no reader sees a counter decrease or a file that is incomplete,
// while the file is written again and again.
func TestConcurrent(t *testing.T) {
	for _, sentinel := range []bool{false, true} {
		t.Run(fmt.Sprint(sentinel), func(t *testing.T) {
			r := Must(New(Config{Name: "f", Dir: t.TempDir(), Sentinel: sentinel}))
			c, fc := Must(r.Counter(Metric{Name: "c"})), Must(r.FloatCounter(Metric{Name: "fc"}))
			g, fg := Must(r.Gauge(Metric{Name: "g"})), Must(r.FloatGauge(Metric{Name: "fg"}))
			s, e := Must(r.String(Metric{Name: "s"})), Must(r.Elapsed(Metric{Name: "e"}))
			x := Must(r.Instances(InDom{Names: []string{"0"}}))
			xc := Must(x.Counter(Metric{Name: "xc"}))
			c.Set(0)
			path := publish(t, r)
			const updaters, files = 4, 100
			var wg sync.WaitGroup
			stop := make(chan struct{})
			total := make([]uint64, updaters)
			for i := range updaters {
				wg.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						default:
						}
						total[i]++
						c.Inc()
						fc.Add(0.5)
						g.Add(3)
						fg.Set(float64(i))
						xc.At("0").Add(2)
						e.Start()
						if err := s.Set(strconv.Itoa(n)); err != nil {
							t.Error(err)
						}
						e.Stop()
					}
				})
			}
			read := func(last uint64) uint64 {
				b, err := os.ReadFile(path)
				if errors.Is(err, fs.ErrNotExist) { // closed
					return last
				}
				n, err := strconv.ParseUint(decode(t, b).values["c"], 10, 64)
				if err != nil || n < last {
					t.Errorf("the counter went from %d to %d (%v)", last, n, err)
				}
				return n
			}
			wg.Go(func() {
				last := uint64(0)
				for {
					select {
					case <-stop:
						return
					default:
						last = read(last)
					}
				}
			})
			for c.Value() == 0 {
				runtime.Gosched()
			}
			for i := range files {
				if err := x.Add(fmt.Sprint(i + 1)); err != nil {
					t.Error(err)
				}
				if i%10 == 9 {
					if err := r.Close(); err != nil {
						t.Error(err)
					}
				}
				publish(t, r)
			}
			close(stop)
			wg.Wait()
			sum := uint64(0)
			for _, n := range total {
				sum += n
			}
			if c.Value() != sum || fc.Value() != float64(sum)/2 || g.Value() != 3*int64(sum) || xc.At("0").Value() != 2*sum {
				t.Errorf("after %d updates: %d, %v, %d, %d", sum, c.Value(), fc.Value(), g.Value(), xc.At("0").Value())
			}
			if fg.Value() >= updaters || e.Value() < 0 {
				t.Errorf("%v, %v", fg.Value(), e.Value())
			}
			if got := read(0); got != sum {
				t.Errorf("the file has %d, want %d", got, sum)
			}
		})
	}
}

// An update that began before a move and ends after it counts once. The entry that it has
// changed was copied before the change, or after.
func TestLate(t *testing.T) {
	bits := math.Float64bits
	for _, test := range []struct {
		name           string
		sentinel       bool
		start          uint64
		before, during func(w *word, e *entry) // the move
		after          func(w *word, e *entry)
		want           uint64
	}{
		{"an addition that was copied", false, 10,
			func(w *word, e *entry) { e.value.Add(5) }, nil,
			func(w *word, e *entry) { w.addLate(e, 5, (*word).addTo, difference) }, 15},
		{"an addition that was not copied", false, 10,
			nil, func(w *word, e *entry) { e.value.Add(5) },
			func(w *word, e *entry) { w.addLate(e, 5, (*word).addTo, difference) }, 15},
		{"one of each", false, 10,
			func(w *word, e *entry) { e.value.Add(5) }, func(w *word, e *entry) { e.value.Add(7) },
			func(w *word, e *entry) {
				w.addLate(e, 5, (*word).addTo, difference)
				w.addLate(e, 7, (*word).addTo, difference)
			}, 22},
		{"several that were not copied", false, 10,
			nil, func(w *word, e *entry) { e.value.Add(5); e.value.Add(7) },
			func(w *word, e *entry) {
				w.addLate(e, 5, (*word).addTo, difference)
				w.add(100)
				w.addLate(e, 7, (*word).addTo, difference)
			}, 122},
		{"an addition that found no entry", false, 10,
			nil, nil,
			func(w *word, e *entry) { w.addLate(nil, 5, (*word).addTo, difference) }, 15},
		{"the first addition of all", true, none,
			nil, func(w *word, e *entry) { w.addTo(e, 5) },
			func(w *word, e *entry) { w.addLate(e, 5, (*word).addTo, difference) }, 5},
		{"a set", false, 10,
			nil, func(w *word, e *entry) { e.value.Store(50) },
			func(w *word, e *entry) { w.setLate(e, 50) }, 50},
		{"an addition and a set", false, 10,
			nil, func(w *word, e *entry) { e.value.Add(5); e.value.Store(50) },
			func(w *word, e *entry) { w.setLate(e, 50); w.addLate(e, 5, (*word).addTo, difference) }, 50},
		{"a float", false, bits(1),
			nil, func(w *word, e *entry) { w.addFloatTo(e, bits(0.5)) },
			func(w *word, e *entry) { w.addLate(e, bits(0.5), (*word).addFloatTo, floatDifference) }, bits(1.5)},
		{"a float that was copied", false, bits(1),
			func(w *word, e *entry) { w.addFloatTo(e, bits(0.5)) }, nil,
			func(w *word, e *entry) { w.addLate(e, bits(0.5), (*word).addFloatTo, floatDifference) }, bits(1.5)},
		{"a float that found no entry", true, none,
			nil, nil,
			func(w *word, e *entry) { w.addLate(nil, bits(0.5), (*word).addFloatTo, floatDifference) }, bits(0.5)},
	} {
		t.Run(test.name, func(t *testing.T) {
			var w word
			w.init(Must(New(Config{Name: "f", Sentinel: test.sentinel})))
			w.set(test.start)
			e := w.at.Load()
			if test.before != nil {
				test.before(&w, e)
			}
			w.move(ownEntry())
			if test.during != nil {
				test.during(&w, e)
			}
			test.after(&w, e)
			if got := w.load(); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

// An update that finds a move under way waits for it.
func TestDuringMove(t *testing.T) {
	r := Must(New(Config{Name: "f"}))
	c := Must(r.Counter(Metric{Name: "c"}))
	r.moving.Lock()
	e := c.word.at.Swap(nil)
	var wg sync.WaitGroup
	wg.Go(c.Inc)
	wg.Go(func() { c.Value() })
	c.word.at.Store(e)
	r.moving.Unlock()
	wg.Wait()
	if c.Value() != 1 {
		t.Errorf("value %d", c.Value())
	}
}
