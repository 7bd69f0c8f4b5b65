package session

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A container is the container that a client has chosen, if any. Only the goroutine of the
// session changes it.
type container struct {
	awaited bool // the client has announced the name in CREDS; the next PDU has it
	chosen  bool // the client has chosen a container at some time, so agents are notified if it chooses none

	mu   sync.Mutex // guards name, which other clients can see (pmcd.client.container)
	name string     // "" is none

	// hostname is the host name in the container; nil if it is not known. A request stores
	// it for the agent that has the metric.
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

// maxContainer is the length of the longest container name, in bytes. It is that of
// a file name. pmcd and agents keep the name as long as the client is connected.
const maxContainer = 255

// validContainer reports whether name can be the name of a container: it has letters,
// digits, '.', '-' and '_', and is not too long.
func validContainer(name []byte) bool {
	for _, c := range name {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_':
		default:
			return false
		}
	}
	return len(name) > 0 && len(name) <= maxContainer
}

// hostnameID is pmcd.hostname.
var hostnameID = pdu.NewPMID(2, 0, 21)

// containerHostTime is how long a client waits for the host name in its container. After
// that it gets the name of this host.
const containerHostTime = 2 * time.Second

// lookUpHost looks up the host name in the container. It is called before a fetch of the
// name, because the agent that has the metric does not wait. find may be nil.
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
