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
)

// errStalled ends the connection of a client that has taken nothing for StallTime.
var errStalled = fmt.Errorf("it has taken nothing of a reply for %.0fs and is disconnected", StallTime.Seconds())

// A slowStream is a stream in Go's poller whose peer reads slowly.
type slowStream interface {
	// writeFrom writes src at the pace of the peer. At the deadline it returns with
	// os.ErrDeadlineExceeded.
	writeFrom(src Source) (n int, err error)

	SetWriteDeadline(time.Time) error

	// unsent returns how many bytes the system has that the peer has not taken.
	unsent() int
}

// writeSlowly writes src to s, whose peer does not read fast enough. The memory of src counts as
// unread until the end. account is that of the client.
func writeSlowly(s slowStream, src Source, account *quota.Account) error {
	held := int64(src.Held())
	if err := account.Hold(held); err != nil {
		return err
	}
	defer account.Drop(held)
	var (
		look     = time.Now() // the last look at what the peer has taken
		progress = look       // when a look last saw more than before
		most     int          // that the peer had taken at a look
		before   = s.unsent()
		written  int
	)
	for {
		now := time.Now()
		if now.Sub(look) >= progressTime {
			look = now
			if taken := written + before - s.unsent(); taken > most {
				most, progress = taken, now
			} else if now.Sub(progress) >= StallTime {
				return errStalled
			}
		}
		if err := s.SetWriteDeadline(look.Add(progressTime)); err != nil {
			return err
		}
		n, err := s.writeFrom(src)
		written += n
		switch {
		case err == nil:
			return s.SetWriteDeadline(time.Time{}) // a deadline that has passed would stop the next write
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		}
	}
}
