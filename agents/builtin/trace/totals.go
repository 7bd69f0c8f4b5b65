package trace

import (
	"slices"
	"sync"
	"time"

	"github.com/gopcp/pmcd/internal/tracepdu"
)

// totals has what clients have sent: for each kind and tag a count since the start or the
// last reset, and figures of the last period in a ring of buckets. Its methods are safe
// for concurrent use.
//
// Bucket e is for what arrives between start + e*interval and start + (e+1)*interval. The
// last of them, which is not over, is not part of the period.
type totals struct {
	now      func() time.Time
	period   time.Duration
	interval time.Duration // period / buckets, which need not be whole seconds
	buckets  int
	memory   int // budget in bytes

	mu    sync.Mutex // guards the following, which clients change and fetches read
	start time.Time
	used  int            // of memory
	users map[owner]*int // of used; each has at least one tag
	kinds [tracepdu.Counter + 1]kindTotals
	left  uint64 // values with new tags that were left out because of the budget
}

// A kindTotals has the tags of one kind.
type kindTotals struct {
	series []*series // by id
	byTag  map[string]*series
	ids    map[string]int32 // of all tags since the start; a tag keeps its id after a reset
}

// A series has the values of one tag and kind.
type series struct {
	id    int32
	tag   string
	user  *int // of totals.users
	count uint64
	sum   float64 // of all values
	last  float64
	ring  []bucket // of the epoch e is ring[e%len(ring)]
}

// A bucket has the figures of one interval. It is of no use if the epoch is another one.
type bucket struct {
	epoch    int64
	n        uint64
	sum      float64
	min, max float64
}

// Costs in bytes, approximately: of a bucket, of a series, and of the id of a tag. The
// length of the tag is added to the last. The first tag of an owner costs userCost more.
const (
	bucketCost = 40
	seriesCost = 200
	idCost     = 100
	userCost   = 150
)

func newTotals(period time.Duration, buckets, memory int, now func() time.Time) *totals {
	t := &totals{now: now, period: period, interval: period / time.Duration(buckets), buckets: buckets, memory: memory, start: now(), users: make(map[owner]*int)}
	for k := range t.kinds {
		t.kinds[k].ids = make(map[string]int32)
		t.kinds[k].byTag = make(map[string]*series)
	}
	return t
}

// add adds a value that o has sent. It reports false if the tag is new and there is no
// memory for it.
func (t *totals) add(o owner, kind tracepdu.Kind, tag []byte, v float64) bool {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	k := &t.kinds[kind]
	s := k.byTag[string(tag)]
	if s == nil {
		if s = t.newSeries(o, k, tag); s == nil {
			t.left++
			return false
		}
	}
	s.count++
	s.sum += v
	s.last = v
	e := t.epoch(now)
	b := &s.ring[e%int64(len(s.ring))]
	if b.n == 0 || b.epoch != e {
		*b = bucket{epoch: e, min: v, max: v}
	}
	b.n++
	b.sum += v
	b.min, b.max = min(b.min, v), max(b.max, v)
	return true
}

// newSeries returns the series of a new tag, nil if there is no memory for it, or o would
// have more than what is left.
func (t *totals) newSeries(o owner, k *kindTotals, tag []byte) *series {
	cost := seriesCost + bucketCost*(t.buckets+1)
	id, known := k.ids[string(tag)]
	if !known {
		cost += idCost + len(tag)
	}
	user := t.users[o]
	if user == nil {
		user = new(int)
		cost += userCost
	}
	if *user+cost > t.memory-t.used {
		return nil
	}
	t.users[o] = user
	*user += cost
	t.used += cost
	name := string(tag)
	if !known {
		id = int32(len(k.ids) + 1)
		k.ids[name] = id
	}
	s := &series{id: id, tag: name, user: user, ring: make([]bucket, t.buckets+1)}
	k.byTag[name] = s
	i, _ := slices.BinarySearchFunc(k.series, id, func(s *series, id int32) int { return int(s.id - id) })
	k.series = slices.Insert(k.series, i, s)
	return s
}

// epoch returns the number of the bucket for what arrives now.
func (t *totals) epoch(now time.Time) int64 { return max(int64(now.Sub(t.start)/t.interval), 0) }

// reset forgets all values. A new period starts.
func (t *totals) reset() {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.start, t.left = now, 0
	for i := range t.kinds {
		k := &t.kinds[i]
		cost := seriesCost + bucketCost*(t.buckets+1)
		for _, s := range k.series {
			*s.user -= cost
			t.used -= cost
		}
		k.series = nil
		clear(k.byTag)
	}
}

// A view is an instance domain as it was when it was read: package pmda's Instances.
type view []figures

// A figures has the values of one tag.
type figures struct {
	id    int32
	tag   string
	count uint64
	sum   float64
	last  float64

	// Of the last period.
	n         uint64
	periodSum float64
	min, max  float64
}

// Each implements pmda.Instances.
func (v *view) Each(yield func(inst int32, name string, data any) bool) {
	for i := range *v {
		if f := &(*v)[i]; !yield(f.id, f.tag, f) {
			return
		}
	}
}

// read sets v to the tags of a kind.
func (t *totals) read(kind tracepdu.Kind, v *view) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	*v = (*v)[:0]
	current := t.epoch(now)
	for _, s := range t.kinds[kind].series {
		f := figures{id: s.id, tag: s.tag, count: s.count, sum: s.sum, last: s.last}
		for i := range s.ring {
			b := &s.ring[i]
			if b.n == 0 || b.epoch >= current || b.epoch < current-int64(t.buckets) {
				continue
			}
			if f.n == 0 {
				f.min, f.max = b.min, b.max
			}
			f.n += b.n
			f.periodSum += b.sum
			f.min, f.max = min(f.min, b.min), max(f.max, b.max)
		}
		*v = append(*v, f)
	}
}

// rate returns how many values there were in a second of the last period.
func (t *totals) rate(f *figures) float64 { return float64(f.n) / t.period.Seconds() }
