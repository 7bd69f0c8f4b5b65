package clients

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A Container is the container that a client has chosen, if any. Only the goroutine of the
// session changes it.
type Container struct {
	Awaited bool // the client has announced the name in CREDS; the next PDU has it
	Chosen  bool // the client has chosen a container at some time, so agents are notified if it chooses none

	mu   sync.Mutex // guards name, which other clients can see (pmcd.client.container)
	name string     // "" is none

	// Hostname is the host name in the container; nil if it is not known. A request stores
	// it for the agent that has the metric.
	Hostname atomic.Pointer[string]
}

// Name returns the name; "" is none.
func (c *Container) Name() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name
}

// Set replaces the name; "" is none.
func (c *Container) Set(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.name = name
	c.Chosen = c.Chosen || name != ""
}

// maxContainer is the length of the longest container name, in bytes. It is that of
// a file name. pmcd and agents keep the name as long as the client is connected.
const maxContainer = 255

// ValidContainer reports whether name can be the name of a container: it has letters,
// digits, '.', '-' and '_', and is not too long.
func ValidContainer(name []byte) bool {
	for _, c := range name {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_':
		default:
			return false
		}
	}
	return len(name) > 0 && len(name) <= maxContainer
}

// containerHostTime is how long a client waits for the host name in its container. After
// that it gets the name of this host.
const containerHostTime = 2 * time.Second

// LookUpHost looks up the host name in the container. It is called before a fetch of the
// name, because the agent that has the metric does not wait. find may be nil.
func (c *Container) LookUpHost(find func(ctx context.Context, container string) (string, error)) {
	name := c.Name()
	c.Hostname.Store(nil)
	if name == "" || find == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), containerHostTime)
	defer cancel()
	if host, err := find(ctx, name); err == nil && host != "" {
		c.Hostname.Store(&host)
	}
}
