package daemon

import "sync/atomic"

// sockets are those of clients.
type sockets struct {
	open   atomic.Int64 // accepted and not closed yet
	closer closer
}
