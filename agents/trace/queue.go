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

// A queue has the values of an asynchronous Client. A goroutine, which the first value
// starts, sends them over the link.
type queue struct {
	link    *link
	values  chan message
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

func newQueue(l *link) *queue {
	q := &queue{link: l, values: make(chan message, l.options.Queue), quit: make(chan struct{}), ended: make(chan struct{}), base: l.now()}
	q.ctx, q.cancel = context.WithCancelCause(context.Background())
	return q
}

func (q *queue) send(d tracepdu.Data) error {
	if until := q.down.Load(); until != 0 && int64(q.link.now().Sub(q.base)) < until {
		q.dropped.Add(1)
		return errDown
	}
	q.start.Do(func() { go q.run() })
	select {
	case q.values <- message{Data: d}:
		return nil
	default:
		q.dropped.Add(1)
		return errFull
	}
}

func (q *queue) flush(ctx context.Context) error {
	q.start.Do(func() { go q.run() })
	m := message{flushed: make(chan error, 1)}
	select {
	case q.values <- m:
	case <-q.ended:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-m.flushed:
		return err
	case <-q.ended:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *queue) close() error {
	q.start.Do(func() { go q.run() })
	close(q.quit)
	t := time.NewTimer(q.link.options.RequestTimeout)
	defer t.Stop()
	select {
	case <-q.ended:
	case <-t.C:
		q.cancel(ErrTimeout)
		<-q.ended
	}
	q.cancel(nil)
	return q.err
}

// run sends what is in the queue until close.
func (q *queue) run() {
	defer close(q.ended)
	defer q.link.close()
	for {
		select {
		case m := <-q.values:
			q.handle(m)
			continue
		default:
		}
		select {
		case m := <-q.values:
			q.handle(m)
		case <-q.quit:
			for {
				select {
				case m := <-q.values:
					q.handle(m)
				default:
					return
				}
			}
		}
	}
}

// handle sends m and what is behind it in the queue.
func (q *queue) handle(m message) {
	q.buf = q.buf[:0]
	n := uint64(0)
	pid := int32(os.Getpid())
	for more := true; more && m.flushed == nil; {
		q.buf = tracepdu.AppendData(q.buf, pid, m.Data)
		n++
		if len(q.buf) >= maxBatch {
			break
		}
		select {
		case m = <-q.values:
		default:
			more = false
		}
	}
	if n > 0 {
		if err := q.write(); err != nil {
			q.dropped.Add(n)
			if q.err == nil {
				q.err = err
			}
		}
	}
	if m.flushed != nil {
		m.flushed <- q.err
		q.err = nil
	}
}

// write writes the batch.
func (q *queue) write() error {
	if q.link.conn != nil && q.gone.Load() {
		q.link.broken(ErrIPC)
	}
	before := q.link.conn
	if err := q.link.connect(q.ctx); err != nil {
		q.down.Store(int64(q.link.retry.Sub(q.base)))
		return err
	}
	q.down.Store(0)
	if q.link.conn != before {
		q.watch()
	}
	err := q.link.write(q.ctx, q.buf)
	if err != nil {
		q.link.broken(err)
		return err
	}
	q.link.worked()
	return nil
}

// watch notes when the agent closes the connection. It sends nothing.
func (q *queue) watch() {
	gone := new(atomic.Bool)
	q.gone = gone
	conn := q.link.conn
	conn.SetReadDeadline(time.Time{})
	go func() { // ends with the connection
		io.Copy(io.Discard, struct{ net.Conn }{conn})
		gone.Store(true)
	}()
}
