package conn

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/quota"
)

const (
	// StallTime is how long a client may take nothing of what is written to it, if that
	// is more than the socket's buffer holds. A client that reads slowly is served as
	// long as the limit allows.
	StallTime = time.Minute

	// progressTime is how often a write looks at how much the client has taken.
	progressTime = 10 * time.Second

	// maxSlowWrite is the most that is written at a time, in bytes. After that it is
	// known what the client has taken.
	maxSlowWrite = 256 << 10
)

// errStalled ends the connection of a client that has taken nothing for StallTime.
var errStalled = fmt.Errorf("it has taken nothing of a reply for %.0fs and is disconnected", StallTime.Seconds())

// A slowStream is a stream in Go's poller whose peer reads slowly.
type slowStream interface {
	Write([]byte) (int, error)
	SetWriteDeadline(time.Time) error

	// unsent returns how many bytes the system has that the peer has not taken.
	unsent() int
}

// A slowReply is a reply that is written to a client that does not read it fast enough. It counts
// as unread with all of its size until the end. It may be written in several pieces. The zero
// value is none.
type slowReply struct {
	size   int            // bytes; 0 if none was announced
	unread *quota.Account // nil if no piece had to wait for the peer

	before   int       // bytes that the system had when the first piece had to wait
	written  int       // bytes since then
	look     time.Time // the last look at what the peer has taken
	most     int       // that the peer had taken at a look
	progress time.Time // when a look last saw more than that
}

// write writes b at the pace of the peer of s. b is all or a piece of the rest of the reply.
// account is that of its client.
func (r *slowReply) write(s slowStream, b []byte, account *quota.Account) error {
	if r.unread == nil {
		now := time.Now()
		r.look, r.progress, r.before = now, now, s.unsent()
		if err := account.Hold(int64(r.size)); err != nil {
			return err
		}
		r.unread = account
	}
	for {
		now := time.Now()
		if now.Sub(r.look) >= progressTime {
			r.look = now
			if taken := r.written + r.before - s.unsent(); taken > r.most {
				r.most, r.progress = taken, now
			} else if now.Sub(r.progress) >= StallTime {
				return errStalled
			}
		}
		if err := s.SetWriteDeadline(r.look.Add(progressTime)); err != nil {
			return err
		}
		n, err := s.Write(b[:min(len(b), maxSlowWrite)])
		b = b[n:]
		r.written += n
		switch {
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case err == nil && len(b) == 0:
			return s.SetWriteDeadline(time.Time{}) // a deadline that has passed would stop the next write
		}
	}
}

// end ends the reply.
func (r *slowReply) end() {
	if r.unread != nil {
		r.unread.Drop(int64(r.size))
	}
	*r = slowReply{}
}
