package session

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A container is the one that a client has chosen, if it has. Only the goroutine of
// the session changes it.
type container struct {
	awaited bool // the client has announced the name in CREDS; the next PDU has it
	chosen  bool // it had one at some time: then agents have to be told of the end of it, too

	mu   sync.Mutex // guards name, which other clients can see (pmcd.client.container)
	name string     // "" is none

	// hostname is what the host is called in it; nil if that is not known. A request
	// stores it for the agent that has the metric.
	hostname atomic.Pointer[string]
}

// current returns the name; "" is none.
func (c *container) current() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name
}

// set replaces the name; "" is none.
func (c *container) set(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.name = name
	c.chosen = c.chosen || name != ""
}

// validContainer reports whether name is one: letters, digits, '.', '-' and '_'.
func validContainer(name []byte) bool {
	for _, c := range name {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_':
		default:
			return false
		}
	}
	return len(name) > 0
}

// hostnameID is pmcd.hostname.
var hostnameID = pdu.NewPMID(2, 0, 21)

// containerHostTime is how long a client of a container waits for the name of its
// host; after that it gets that of this one.
const containerHostTime = 2 * time.Second

// lookUpHost finds out what the host is called in the container, before a fetch of
// that: the agent that has the metric does not wait. Find may be nil.
func (c *container) lookUpHost(find func(ctx context.Context, container string) (string, error)) {
	name := c.current()
	c.hostname.Store(nil)
	if name == "" || find == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), containerHostTime)
	defer cancel()
	if host, err := find(ctx, name); err == nil && host != "" {
		c.hostname.Store(&host)
	}
}
