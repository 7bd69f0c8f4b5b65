package conn

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// DefaultUnread is the default of [Config.Unread].
var DefaultUnread = UnreadLimits{All: 64 << 20, Each: 8 << 20}

// UnreadLimits are how much memory, in bytes, may be in use for what is written to
// clients that do not read it.
type UnreadLimits struct {
	// All is the limit for all clients. Above it clients are disconnected: see
	// unread.evict.
	All int64
	// Each is how much one client may have before it is among the first of these.
	Each int64
	// Socket is how much the system keeps in the buffer of a socket (SO_SNDBUF), which does
	// not count for the limits above; 0 is what the system has.
	Socket int
}

const (
	// StallTime is how long a client may take nothing of what is written to it, if that
	// is more than the socket's buffer holds. A client that reads slowly is served as
	// long as the limits allow.
	StallTime = time.Minute

	// progressTime is how often a write looks at how much the client has taken.
	progressTime = 10 * time.Second

	// newcomerTime is how long others are disconnected in place of a client that has
	// not had much time to read, and firstTime while it has had none.
	newcomerTime = time.Second
	firstTime    = newcomerTime / 10

	// maxSlowWrite is the most that is written at a time, in bytes. After that it is
	// known what the client has taken.
	maxSlowWrite = 256 << 10
)

// errStalled ends the connection of a client that has taken nothing for StallTime.
var errStalled = fmt.Errorf("it has taken nothing of a reply for %.0fs and is disconnected", StallTime.Seconds())

// An UnreadError ends the connection of a client because clients do not read their
// replies.
type UnreadError struct {
	Size  int64 // of what is written to the client, in bytes
	Limit int64 // for all clients
}

func (e *UnreadError) Error() string {
	return fmt.Sprintf("it is the slowest reader: unread replies exceed %d MiB, and its own has %d bytes", e.Limit>>20, e.Size)
}

// A slowStream is a stream in Go's poller whose peer reads slowly.
type slowStream interface {
	Write([]byte) (int, error)
	SetWriteDeadline(time.Time) error

	// unsent returns how many bytes the system has that the peer has not taken. It is
	// called by any goroutine during a Write.
	unsent() int

	// Abort makes Write fail.
	Abort()

	Peer() Peer
}

// unread is what is being written to clients that do not read fast enough.
type unread struct {
	UnreadLimits

	mu      sync.Mutex   // guards the following
	held    int64        // the sizes of all writes that are not evicted
	writes  []*slowWrite // the oldest first
	last    Evicted      // the last of those that were evicted
	evicted int64        // writes so far
}

// A slowWrite is one write. Its fields belong to the goroutine that writes, with the
// mutex of unread for those that change.
type slowWrite struct {
	to      slowStream
	size    int64 // of all that is written, which is in memory until the end
	since   time.Time
	before  int // unsent when the write began
	written int64
	marks   [2]int64 // what the peer had taken at the last looks, 10 to 20 s ago the first
	evicted bool
	order   [3]float64 // for evict: those with the least are evicted first

	// The following are of goOn.
	look     time.Time // the last look
	most     int64     // that the peer had taken at a look
	progress time.Time // when a look last saw more than that
}

// taken returns how many bytes the peer has taken since the write began.
func (w *slowWrite) taken() int64 { return w.written + int64(w.before-w.to.unsent()) }

// write writes b, the rest of a reply of size bytes, at the pace of the peer of s.
func (u *unread) write(s slowStream, b []byte, size int) error {
	w := u.begin(s, size)
	defer u.end(w)
	return u.goOn(w, b)
}

// goOn writes b, which is all or a part of what w writes, at the pace of the peer.
func (u *unread) goOn(w *slowWrite, b []byte) error {
	s := w.to
	for {
		now := time.Now()
		if now.Sub(w.look) >= progressTime {
			w.look = now
			if taken := u.look(w); taken > w.most {
				w.most, w.progress = taken, now
			} else if now.Sub(w.progress) >= StallTime {
				return errStalled
			}
		}
		if err := s.SetWriteDeadline(w.look.Add(progressTime)); err != nil {
			return err
		}
		n, err := s.Write(b[:min(len(b), maxSlowWrite)])
		b = b[n:]
		if u.wrote(w, n) {
			return &UnreadError{Size: w.size, Limit: u.All}
		}
		switch {
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case err == nil && len(b) == 0:
			return s.SetWriteDeadline(time.Time{}) // a deadline that has passed would stop the next write
		}
	}
}

// A slowReply is a reply that is written in several pieces, of which at least one had to
// wait for the peer. The zero value is none.
type slowReply struct {
	size  int // bytes; 0 if none was announced
	write *slowWrite
}

// goOn writes b, a piece of the reply, to s.
func (r *slowReply) goOn(u *unread, s slowStream, b []byte) error {
	if r.write == nil {
		r.write = u.begin(s, r.size)
	}
	return u.goOn(r.write, b)
}

// end ends the reply.
func (r *slowReply) end(u *unread) {
	if r.write != nil {
		u.end(r.write)
	}
	*r = slowReply{}
}

// begin adds a write of size bytes. If that is too much for the limit, others are
// evicted, or this one.
func (u *unread) begin(s slowStream, size int) *slowWrite {
	now := time.Now()
	w := &slowWrite{to: s, size: int64(size), since: now, look: now, progress: now, before: s.unsent()}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.writes = append(u.writes, w)
	u.held += w.size
	for u.held > u.All && u.evict(w.since) {
	}
	return w
}

// evict disconnects one client: one with more than its own limit if there is one, and
// of several the one that has lately taken the least for what is held for it. Clients
// that have just begun come last, the oldest of them first. evict reports false if no
// client is left. The caller holds mu.
func (u *unread) evict(now time.Time) bool {
	var first *slowWrite
	for _, w := range u.writes {
		if w.evicted {
			continue
		}
		w.order = [3]float64{}
		if w.size <= u.Each {
			w.order[1] = 1
		}
		switch age := now.Sub(w.since); {
		case age < firstTime:
			w.order[0] = 2
		case age < newcomerTime:
			w.order[0] = 1
			fallthrough
		default:
			w.order[2] = float64(w.taken()-w.marks[0]) / float64(w.size)
		}
		if first == nil || slices.Compare(w.order[:], first.order[:]) < 0 {
			first = w
		}
	}
	if first == nil {
		return false
	}
	first.evicted = true
	u.evicted++
	u.last = Evicted{Client: first.to.Peer().String(), At: now}
	u.held -= first.size
	first.to.Abort()
	return true
}

// look notes what the peer has taken, and returns it.
func (u *unread) look(w *slowWrite) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := w.taken()
	w.marks = [2]int64{w.marks[1], taken}
	return taken
}

// wrote notes that n bytes were written, and reports whether w was evicted.
func (u *unread) wrote(w *slowWrite, n int) (evicted bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	w.written += int64(n)
	return w.evicted
}

// end removes w.
func (u *unread) end(w *slowWrite) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !w.evicted {
		u.held -= w.size
	}
	i := slices.Index(u.writes, w)
	u.writes = slices.Delete(u.writes, i, i+1)
}

// An Evicted is a client that was disconnected because of a limit.
type Evicted struct {
	Client string // its address
	At     time.Time
}

// stats fills in Unread, UnreadLimit, Evicted and LastEvicted.
func (u *unread) stats(s *Stats) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s.Unread, s.UnreadLimit, s.Evicted, s.LastEvicted = u.held, u.All, u.evicted, u.last
}
