package pmapi

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// Options are what a host specification does not say about a Client. The zero Options are
// the default.
type Options struct {
	// TLS has the CAs and the certificate of the client. The name that the certificate of
	// pmcd must have is the host of the specification, unless TLS has a ServerName, and
	// localhost for a Unix socket. TLS does not turn TLS on: that is for the host
	// specification and PCP_SECURE_SOCKETS.
	//
	// If GetClientCertificate fails, no certificate is shown, as a pmcd asks each client for
	// one and few require it. The error becomes part of that of a connection that fails.
	TLS *tls.Config

	// AnyCertificate makes the client accept every certificate, as libpcp does by default:
	// anyone in between can then read and change all data.
	AnyCertificate bool

	// Timeout limits each request, besides its context; 0 is no limit. libpcp waits 10
	// seconds. Each attempt to connect is a request of its own. The wait for another request
	// of the Client, and that before an attempt to connect, have the same limit.
	Timeout time.Duration

	// MaxReply is the length of the longest PDU that the client accepts, in bytes; 0 is 64
	// MiB.
	MaxReply int

	// Reconnect makes the client connect anew when a request finds the connection closed,
	// or nil: then a client whose connection is closed stays without one. See [Backoff].
	Reconnect *Backoff

	// DialContext opens connections, "tcp" or "unix", in place of that of a net.Dialer.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

func (o *Options) maxReply() int {
	if o.MaxReply > 0 {
		return o.MaxReply
	}
	return defaultMaxReply
}

// A Client is a client of one pmcd: a context of PMAPI(3).
//
// Its methods can be called by several goroutines. There is one connection, on which
// requests are made one after the other: a request waits for those before it, or until its
// context ends. Clients that should not wait for each other need connections of their own.
//
// The end of its context interrupts a request at any time. If the request was not sent yet,
// that is all. Otherwise a reply would come to which no request belongs, so the connection is
// closed. See [ConnError] for what follows.
type Client struct {
	spec Spec
	opts Options

	life context.Context // cancelled by Close
	kill context.CancelFunc
	live atomic.Pointer[conn] // conn, for Close and Features

	profile atomic.Pointer[pdu.Profile] // that fetches are to have; not changed

	// sem has a value while a request is made, which owns the fields below.
	sem     chan struct{}
	conn    *conn // nil without a connection
	connErr error // why there is none
	backoff backoffState

	changes  changeLog
	reported uint64 // the position in changes of Client.Fetch

	cache cache
}

// Dial connects to the pmcd of a host specification (see [ParseSpec]), and logs in if the
// specification says so. ctx limits Dial only, not the Client.
//
// Dial uses the environment as libpcp does: PMCD_PORT, PMCD_SOCKET, PMPROXY_HOST,
// PMPROXY_PORT and PCP_SECURE_SOCKETS (PCPIntro(1)), and PCP_RUN_DIR. It reads no files. If
// the specification is empty, it is that of the variable PMCD_HOST or, without that, local:.
//
// Dial returns when pmcd has answered a first request. So an error in logging in, an access
// rule or a container that pmcd refuses make Dial fail, and not a later request.
func Dial(ctx context.Context, host string, o Options) (*Client, error) {
	if host == "" {
		host, _ = os.LookupEnv("PMCD_HOST")
	}
	s, err := ParseSpec(host)
	if err != nil {
		return nil, err
	}
	c := &Client{spec: s, opts: o, sem: make(chan struct{}, 1)}
	c.life, c.kill = context.WithCancel(context.Background())
	c.profile.Store(&pdu.Profile{})
	if err := c.acquire(ctx); err != nil {
		return nil, err
	}
	defer c.release()
	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Close closes the connection. It interrupts a request that is being made. All requests fail
// with ErrClosed afterwards. Close always returns nil.
func (c *Client) Close() error {
	c.kill()
	if n := c.live.Load(); n != nil {
		n.close()
	}
	return nil
}

// Spec returns the host specification of c, without the password.
func (c *Client) Spec() Spec {
	s := c.spec
	s.Password = ""
	return s
}

// Features returns what pmcd said at the start of the present or the last connection that it
// can do.
func (c *Client) Features() pdu.Features {
	if n := c.live.Load(); n != nil {
		return n.features
	}
	return 0
}

// acquire waits until no other request is made.
func (c *Client) acquire(ctx context.Context) error {
	if c.life.Err() != nil {
		return ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case c.sem <- struct{}{}:
		return nil
	default:
	}
	ctx, cancel := c.limited(ctx)
	defer cancel()
	select {
	case c.sem <- struct{}{}:
		return nil
	case <-c.life.Done():
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Client) release() { <-c.sem }

// limited returns ctx with Options.Timeout.
func (c *Client) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.opts.Timeout > 0 {
		return context.WithTimeout(ctx, c.opts.Timeout)
	}
	return context.WithCancel(ctx)
}

// connect connects. The caller has acquired c.
func (c *Client) connect(ctx context.Context) error {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	n, err := dial(ctx, c.spec, &c.opts)
	if err != nil {
		c.connErr = c.connError(err)
		return c.connErr
	}
	c.conn, c.connErr = n, nil
	c.live.Store(n)
	if c.life.Err() != nil { // Close may not have seen n
		n.close()
		return ErrClosed
	}
	return nil
}

func (c *Client) connError(err error) error {
	if c.life.Err() != nil {
		return ErrClosed
	}
	return &ConnError{Spec: c.Spec(), Err: err}
}

// begin acquires c and returns the connection for a request. If there is no
// error, end must be called.
func (c *Client) begin(ctx context.Context) (*conn, error) {
	if err := c.acquire(ctx); err != nil {
		return nil, err
	}
	if c.conn == nil {
		if err := c.reconnect(ctx); err != nil {
			c.release()
			return nil, err
		}
	}
	c.conn.begin(ctx, c.opts.Timeout)
	return c.conn, nil
}

// end finishes a request that begin started, and returns the error of the request.
func (c *Client) end(ctx context.Context, n *conn, err error) error {
	n.end()
	c.noticed(n)
	if n.broken != nil {
		n.close()
		c.conn = nil
		c.connErr = c.connError(cause(ctx, n.broken))
		if err != nil {
			err = c.connErr
		}
	}
	c.release()
	return err
}

// noticed takes over the state changes that n has got.
func (c *Client) noticed(n *conn) {
	if n.state != 0 {
		c.changes.add(n.state)
		n.state = 0
		c.cache.drop()
	}
}

// do makes a request. f may be called again with another connection if the first one was
// closed.
func (c *Client) do(ctx context.Context, f func(*conn) error) error {
	for try := 0; ; try++ {
		n, err := c.begin(ctx)
		if err != nil {
			return err
		}
		if err = c.end(ctx, n, f(n)); !c.again(ctx, err, try) {
			return err
		}
	}
}

// again reports whether a request that failed with err is to be made again: if it was the
// first try and the connection was lost, which may have happened long before the request.
func (c *Client) again(ctx context.Context, err error, try int) bool {
	if err == nil || try > 0 || c.opts.Reconnect == nil || ctx.Err() != nil {
		return false
	}
	var lost *ConnError
	return errors.As(err, &lost) && !errors.Is(err, ErrReply) && !errors.Is(err, context.DeadlineExceeded)
}

// call makes a request that has one PDU.
func (c *Client) call(ctx context.Context, req, reply pdu.Message) error {
	return c.do(ctx, func(n *conn) error { return n.call(req, reply) })
}

// checked is call with a check of the reply. If that fails, the reply may belong to another
// request.
func (c *Client) checked(ctx context.Context, req, reply pdu.Message, check func() error) error {
	return c.do(ctx, func(n *conn) error {
		if err := n.call(req, reply); err != nil {
			return err
		}
		if err := check(); err != nil {
			return n.fail(err)
		}
		return nil
	})
}
