package session

import (
	"sync"
	"sync/atomic"
	"time"
)

// A hostname is the name of this host as it was last seen. The kernel does not
// announce a change.
type hostname struct {
	get   func() (string, error)
	every time.Duration
	next  atomic.Pointer[time.Time] // when to look again; nil before the first look

	mu   sync.Mutex // guards the following: fetches of several clients, and a reload, look
	name string     // "" before the first look
}

// DefaultHostnameEvery is the default of Config.HostnameEvery, as C pmcd 7 means to
// do it.
const DefaultHostnameEvery = 10 * time.Second

// current is the name now; "" if it cannot be read.
func (h *hostname) current() string {
	name, _ := h.get()
	return name
}

// due reports whether the last look was some time ago.
func (h *hostname) due(now time.Time) bool {
	next := h.next.Load()
	return next == nil || !now.Before(*next)
}

// look gets the name. It returns the one before, too, which is "" at the first look.
func (h *hostname) look(now time.Time) (before, name string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := now.Add(h.every)
	h.next.Store(&next)
	name, err = h.get()
	if err != nil {
		return "", "", err
	}
	before, h.name = h.name, name
	return before, name, nil
}
