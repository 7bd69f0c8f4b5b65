package trace

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/internal/tracepdu"
)

// A Client sends values to the agent trace. Its methods are safe for concurrent use.
type Client struct {
	options Options
	closed  atomic.Bool

	link  *link
	queue *queue // nil if the Client is synchronous
}

// New returns a Client. It connects when the first value is sent.
func New(o Options) *Client { return newClient(o, time.Now) }

func newClient(o Options, now func() time.Time) *Client {
	c := &Client{options: o.withDefaults()}
	c.link = newLink(&c.options, now)
	if o.Async {
		c.queue = newQueue(c.link)
	}
	return c
}

// Begin begins a transaction. It neither fails nor sends anything: an invalid tag is an
// error of End.
func (c *Client) Begin(tag string) *Transaction {
	return &Transaction{client: c, tag: tag, begin: time.Now()}
}

// A Transaction is something that takes time. It is in progress until End or Abort is called.
type Transaction struct {
	client *Client
	tag    string
	begin  time.Time
	ended  atomic.Bool
}

// End ends the transaction and sends the time since Begin. A Transaction that has ended
// already is ErrNoProgress.
func (t *Transaction) End(ctx context.Context) error {
	if t.ended.Swap(true) {
		return ErrNoProgress
	}
	return t.client.Transact(ctx, t.tag, time.Since(t.begin))
}

// Abort ends the transaction and sends nothing. A Transaction that has ended already is
// ErrNoProgress. So Abort can be deferred for all cases in which End is not called.
func (t *Transaction) Abort() error {
	if t.ended.Swap(true) {
		return ErrNoProgress
	}
	return nil
}

// Transact sends the time that a transaction took, which the program has measured.
func (c *Client) Transact(ctx context.Context, tag string, took time.Duration) error {
	return c.send(ctx, tracepdu.Transaction, tag, took.Seconds())
}

// Point reports that the program has passed a point.
func (c *Client) Point(ctx context.Context, tag string) error {
	return c.send(ctx, tracepdu.Point, tag, -1)
}

// Observe sends a value that has been observed.
func (c *Client) Observe(ctx context.Context, tag string, value float64) error {
	return c.send(ctx, tracepdu.Observation, tag, value)
}

// Counter sends the value of a counter, which only increases.
func (c *Client) Counter(ctx context.Context, tag string, value float64) error {
	return c.send(ctx, tracepdu.Counter, tag, value)
}

// Flush waits until an asynchronous Client has sent the values in its queue. It returns the
// first error since the last Flush that lost values.
func (c *Client) Flush(ctx context.Context) error {
	switch {
	case c.closed.Load():
		return ErrClosed
	case c.queue == nil || c.options.Disabled:
		return nil
	}
	return c.queue.flush(ctx)
}

// Dropped returns how many values an asynchronous Client has lost: the queue was full, or
// there was no connection.
func (c *Client) Dropped() uint64 {
	if c.queue == nil {
		return 0
	}
	return c.queue.dropped.Load()
}

// Close closes the connection. An asynchronous Client first sends the values in its queue,
// for at most Options.RequestTimeout, and the error is ErrTimeout if that is too short. A
// synchronous Client first waits for the calls in progress.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return ErrClosed
	}
	if c.queue != nil {
		return c.queue.close()
	}
	return c.link.end()
}

func (c *Client) send(ctx context.Context, kind tracepdu.Kind, tag string, value float64) error {
	switch {
	case tag == "" || strings.IndexByte(tag, 0) >= 0:
		return ErrTagName
	case len(tag) > tracepdu.MaxTag:
		return ErrTagLength
	case c.closed.Load():
		return ErrClosed
	case c.options.Disabled:
		return nil
	}
	d := tracepdu.Data{Kind: kind, Value: value, Tag: tag}
	if c.queue != nil {
		return c.queue.send(d)
	}
	return c.link.send(ctx, d)
}
