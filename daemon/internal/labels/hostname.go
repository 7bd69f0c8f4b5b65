package labels

import (
	"sync"
	"sync/atomic"
	"time"
)

// DefaultHostnameEvery is the default of Config.HostnameEvery, as C pmcd 7 means to
// do it.
const DefaultHostnameEvery = 10 * time.Second

// A hostname is the name of this host as it was last seen. The kernel does not
// announce a change.
type hostname struct {
	get   func() (string, error)
	every time.Duration
	next  atomic.Pointer[time.Time] // when to look again; nil before the first look

	mu   sync.Mutex // guards the following: fetches of several clients, and a reload, look
	name string     // "" before the first look
}

// look gets the name. It returns the one before, too, which is "" at the first look.
func (n *hostname) look(now time.Time) (before, name string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := now.Add(n.every)
	n.next.Store(&next)
	name, err = n.get()
	if err != nil {
		return "", "", err
	}
	before, n.name = n.name, name
	return before, name, nil
}

// Hostname returns the name of this host now; "" if it cannot be read.
func (h *Host) Hostname() string {
	name, _ := h.name.get()
	return name
}

// HostnameDue reports whether the last CheckHostname was some time ago.
func (h *Host) HostnameDue(now time.Time) bool {
	next := h.name.next.Load()
	return next == nil || !now.Before(*next)
}

// CheckHostname looks at the name of the host, and reports whether it has changed. It logs
// that clients are notified, which is for the caller to do.
func (h *Host) CheckHostname(now time.Time) (changed bool) {
	before, name, err := h.name.look(now)
	switch {
	case err != nil:
		h.cfg.Limiter.Warn("gethostname", "cannot read the name of this host: {error}; clients get the name that was read before", "error", err)
	case before != "" && before != name:
		h.cfg.Log.Info("hostname changed from {before} to {host}; clients are notified", "before", before, "host", name)
		return true
	}
	return false
}
