package trace

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/internal/tracepdu"
)

// An asynchronous is the part of a Client that does not wait for the agent. A goroutine,
// which the first value starts, sends what is in the queue.
type asynchronous struct {
	link    *link
	queue   chan message
	dropped atomic.Uint64
	down    atomic.Int64 // no connection before that time, in nanoseconds since base; 0 is none
	base    time.Time

	start  sync.Once
	quit   chan struct{} // closed by close: the goroutine sends what is in the queue and ends
	ended  chan struct{}
	ctx    context.Context // of connections; ends if close does not wait any longer
	cancel context.CancelCauseFunc
	err    error // the first since the last flush; only the goroutine uses it
	buf    []byte
	gone   *atomic.Bool // the agent has closed the connection; of link.conn
}

// A message is a value, or a request to report when all before it have been sent.
type message struct {
	tracepdu.Data
	flushed chan error
}

// maxBatch is how many bytes are sent at once.
const maxBatch = 32 << 10

func newAsynchronous(l *link) *asynchronous {
	a := &asynchronous{link: l, queue: make(chan message, l.options.Queue), quit: make(chan struct{}), ended: make(chan struct{}), base: l.now()}
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	return a
}

func (a *asynchronous) send(d tracepdu.Data) error {
	if until := a.down.Load(); until != 0 && int64(a.link.now().Sub(a.base)) < until {
		a.dropped.Add(1)
		return errDown
	}
	a.start.Do(func() { go a.run() })
	select {
	case a.queue <- message{Data: d}:
		return nil
	default:
		a.dropped.Add(1)
		return errFull
	}
}

func (a *asynchronous) flush(ctx context.Context) error {
	a.start.Do(func() { go a.run() })
	m := message{flushed: make(chan error, 1)}
	select {
	case a.queue <- m:
	case <-a.ended:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-m.flushed:
		return err
	case <-a.ended:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *asynchronous) close() error {
	a.start.Do(func() { go a.run() })
	close(a.quit)
	t := time.NewTimer(a.link.options.RequestTimeout)
	defer t.Stop()
	select {
	case <-a.ended:
	case <-t.C:
		a.cancel(ErrTimeout)
		<-a.ended
	}
	a.cancel(nil)
	return a.err
}

// run sends what is in the queue until close.
func (a *asynchronous) run() {
	defer close(a.ended)
	defer a.link.close()
	for {
		select {
		case m := <-a.queue:
			a.handle(m)
			continue
		default:
		}
		select {
		case m := <-a.queue:
			a.handle(m)
		case <-a.quit:
			for {
				select {
				case m := <-a.queue:
					a.handle(m)
				default:
					return
				}
			}
		}
	}
}

// handle sends m and what is behind it in the queue.
func (a *asynchronous) handle(m message) {
	a.buf = a.buf[:0]
	n := uint64(0)
	pid := int32(os.Getpid())
	for more := true; more && m.flushed == nil; {
		a.buf = tracepdu.AppendData(a.buf, pid, m.Data)
		n++
		if len(a.buf) >= maxBatch {
			break
		}
		select {
		case m = <-a.queue:
		default:
			more = false
		}
	}
	if n > 0 {
		if err := a.write(); err != nil {
			a.dropped.Add(n)
			if a.err == nil {
				a.err = err
			}
		}
	}
	if m.flushed != nil {
		m.flushed <- a.err
		a.err = nil
	}
}

// write writes the batch.
func (a *asynchronous) write() error {
	if a.link.conn != nil && a.gone.Load() {
		a.link.broken(ErrIPC)
	}
	before := a.link.conn
	if err := a.link.connect(a.ctx); err != nil {
		a.down.Store(int64(a.link.retry.Sub(a.base)))
		return err
	}
	a.down.Store(0)
	if a.link.conn != before {
		a.watch()
	}
	err := a.link.write(a.ctx, a.buf)
	if err != nil {
		a.link.broken(err)
		return err
	}
	a.link.worked()
	return nil
}

// watch notes when the agent closes the connection. It sends nothing.
func (a *asynchronous) watch() {
	gone := new(atomic.Bool)
	a.gone = gone
	conn := a.link.conn
	conn.SetReadDeadline(time.Time{})
	go func() { // ends with the connection
		io.Copy(io.Discard, struct{ net.Conn }{conn})
		gone.Store(true)
	}()
}
