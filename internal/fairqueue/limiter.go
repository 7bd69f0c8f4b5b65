package fairqueue

import "sync"

// A Limiter is a weighted semaphore with fair queueing: what has to wait begins in the order of a
// [Queue]. Use [NewLimiter] or [NewSharing] to make one. Its methods may be called by any goroutine.
type Limiter struct {
	sharing bool

	mu      sync.Mutex // guards the following, and what is in each Use
	limit   int64
	used    int64
	groups  map[Group]int64 // what they use, if it is sharing
	waiting Queue[*Use]
	open    bool
}

// A Use is a part of what a Limiter allows. Any goroutine may call its methods.
type Use struct {
	limiter *Limiter
	size    int64
	key     *Key
	begun   chan struct{} // nil if it has not had to wait
	item    Item[*Use]
	ended   bool
}

// NewLimiter returns a Limiter for what adds up to limit, in a unit of the caller's.
func NewLimiter(limit int64) *Limiter { return &Limiter{limit: limit} }

// NewSharing returns a Limiter that lets a group begin, also above the limit, that uses less than
// its share: the limit divided by the number of groups that use any, and one more. So a group that
// uses nothing does not wait for what others have begun.
func NewSharing(limit int64) *Limiter {
	return &Limiter{limit: limit, sharing: true, groups: make(map[Group]int64)}
}

// Limit returns the limit.
func (l *Limiter) Limit() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit
}

// SetLimit changes the limit. If it is lower, what has begun goes on.
func (l *Limiter) SetLimit(limit int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = limit
	l.begin(Group{})
}

// Start starts u, which begins when those before it have begun and there is room for size. What
// is larger than the limit begins when there is no other. Start reports whether u has begun. The
// caller must call End before it starts u again. key must not change until then.
func (l *Limiter) Start(u *Use, size int64, key *Key) (begun bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u.limiter, u.size, u.key, u.begun, u.ended = l, size, key, nil, false
	if l.waiting.Len() == 0 && l.fits(u) {
		l.use(u, 1)
		return true
	}
	u.begun, u.item.Value = make(chan struct{}), u
	l.waiting.Push(&u.item, u.key)
	l.begin(u.key.Group)
	return u.HasBegun()
}

// fits reports whether there is room for u. The caller holds mu.
func (l *Limiter) fits(u *Use) bool { return l.used == 0 || l.used+u.size <= l.limit || l.open }

// inShare reports whether u is a part of the share of its group. The caller holds mu.
func (l *Limiter) inShare(u *Use) bool {
	own := l.groups[u.key.Group]
	active := len(l.groups)
	if own == 0 {
		active++
	}
	return own+u.size <= max(1, l.limit/int64(active+1))
}

// use adds u, n times, to what is used. The caller holds mu.
func (l *Limiter) use(u *Use, n int64) {
	n *= u.size
	l.used += n
	if !l.sharing {
		return
	}
	if l.groups[u.key.Group] += n; l.groups[u.key.Group] == 0 {
		delete(l.groups, u.key.Group)
	}
}

// begin lets those begin that may: those of a group that has its share, and those for which there
// is room. The caller holds mu.
func (l *Limiter) begin(group Group) {
	begin := func(next *Item[*Use]) {
		l.waiting.Take(next)
		l.use(next.Value, 1)
		close(next.Value.begun)
	}
	if l.sharing {
		for next := l.waiting.PeekGroup(group); next != nil && l.inShare(next.Value); next = l.waiting.PeekGroup(group) {
			begin(next)
		}
	}
	for next := l.waiting.Peek(); next != nil && l.fits(next.Value); next = l.waiting.Peek() {
		begin(next)
	}
}

// Open lets all begin, now and from now on.
func (l *Limiter) Open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = true
	l.begin(Group{})
}

// Used returns the sizes of what has begun and not ended, added up.
func (l *Limiter) Used() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used
}

// UsedBy is Used for a group of a Limiter that is sharing.
func (l *Limiter) UsedBy(g Group) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.groups[g]
}

// Waiting returns how many wait.
func (l *Limiter) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting.Len()
}

// Next returns the key of the Use that begins next. ok is false if none waits.
func (l *Limiter) Next() (key Key, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if next := l.waiting.Peek(); next != nil {
		return *next.Value.key, true
	}
	return Key{}, false
}

// Begun returns a channel that is closed when u, which had to wait, has begun.
func (u *Use) Begun() <-chan struct{} { return u.begun }

// HasBegun reports whether u has begun.
func (u *Use) HasBegun() bool {
	if u.begun == nil {
		return true
	}
	select {
	case <-u.begun:
		return true
	default:
		return false
	}
}

// End ends u, whether it has begun or waits. Further calls have no effect.
func (u *Use) End() {
	l := u.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	if u.ended {
		return
	}
	u.ended = true
	if !l.waiting.Remove(&u.item) {
		l.use(u, -1)
	}
	l.begin(u.key.Group)
}
