package daemon

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A hostname is the name of this host as it was last seen. The kernel tells
// nobody of a change.
type hostname struct {
	get  func() (string, error) // os.Hostname but in tests
	next atomic.Int64           // when to look again, in Unix nanoseconds

	mu   sync.Mutex // guards the following
	name string     // "" before the first look
}

// hostnameEvery is how often a fetch looks at the name of the host, as C pmcd
// 7 means to do.
const hostnameEvery = 10 * time.Second

// current is the name now; "" if there is none to be had.
func (h *hostname) current() string {
	name, _ := h.get()
	return name
}

// hostnameID is pmcd.hostname.
var hostnameID = pdu.NewPMID(2, 0, 21)

// observeTime is how long a client of a container waits for the name of its
// host; after that it gets that of this one.
const observeTime = 2 * time.Second

// observe finds out what the host is called in the client's container, before a
// fetch of that: the agent that has the metric waits for nothing.
func (s *session) observe() {
	s.mu.Lock()
	container := s.container
	s.mu.Unlock()
	s.observed.Store(nil)
	if container == "" || s.d.cfg.ContainerHost == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), observeTime)
	defer cancel()
	if name, err := s.d.cfg.ContainerHost(ctx, container); err == nil && name != "" {
		s.observed.Store(&name)
	}
}

// noticeHostname looks at the name of the host if the last look was some time
// ago, and tells clients of a change (PMCD_HOSTNAME_CHANGE).
func (d *Daemon) noticeHostname(now time.Time) {
	if now.UnixNano() >= d.hostname.next.Load() {
		d.checkHostname(now)
	}
}

func (d *Daemon) checkHostname(now time.Time) {
	h := &d.hostname
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next.Store(now.Add(hostnameEvery).UnixNano())
	name, err := h.get()
	switch {
	case err != nil:
		d.limiter.Printf("gethostname", "cannot tell the name of this host: %v", err)
		return
	case h.name != "" && h.name != name:
		d.log.Info(fmt.Sprintf("hostname changed from %s to %s", h.name, name))
		d.notice(pdu.StateHostname)
	}
	h.name = name
}
