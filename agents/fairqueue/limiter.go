package fairqueue

import "sync"

// A Limiter limits how much goes on at a time. What has to wait begins in the order of
// turns. Use [NewLimiter] to make one. Its methods may be called by any goroutine.
type Limiter struct {
	limit int64

	mu      sync.Mutex // guards the following, and what is in each Use
	used    int64
	waiting Queue[*Use]
}

// A Use is a part of what a Limiter allows. Any goroutine may call its methods.
type Use struct {
	limiter *Limiter
	size    int64
	key     Key
	item    Item[*Use]
	begun   chan struct{}
	ended   bool
}

// NewLimiter returns a Limiter for what adds up to limit, in a unit of the caller's.
func NewLimiter(limit int64) *Limiter { return &Limiter{limit: limit} }

// Start returns a Use that begins when those before it have begun and there is room for its
// size. A Use that is larger than the limit begins when there is no other. The caller must
// call End.
func (l *Limiter) Start(size int64, key Key) *Use {
	u := &Use{limiter: l, size: size, key: key, begun: make(chan struct{})}
	u.item.Value = u
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting.Push(&u.item, &u.key)
	l.begin()
	return u
}

// begin lets those begin for which there is room. The caller holds mu.
func (l *Limiter) begin() {
	for next := l.waiting.Peek(); next != nil; next = l.waiting.Peek() {
		u := next.Value
		if l.used > 0 && l.used+u.size > l.limit {
			return
		}
		l.waiting.Pop()
		l.used += u.size
		close(u.begun)
	}
}

// Used returns the sizes of what has begun and not ended, added up.
func (l *Limiter) Used() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used
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
		return next.Value.key, true
	}
	return Key{}, false
}

// Begun returns a channel that is closed when u has begun.
func (u *Use) Begun() <-chan struct{} { return u.begun }

// HasBegun reports whether u has begun.
func (u *Use) HasBegun() bool {
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
		l.used -= u.size
	}
	l.begin()
}
