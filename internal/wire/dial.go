package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/rawio"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// A Conn is a byte stream to a PMDA: a TCP or Unix connection, or a pair of
// pipes. After a read has failed at its deadline the Conn can be read again.
type Conn interface {
	io.ReadWriteCloser
	syscall.Conn // for the side that Write uses; see ReadConn
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// ReadConn is implemented by a Conn that has two descriptors, such as a pair of
// pipes. SyscallReadConn returns the side that Read uses.
type ReadConn interface {
	SyscallReadConn() (syscall.RawConn, error)
}

// A DirectConn is a Conn that can also be read without Go's poller, by a read that
// blocks its thread. That is quicker, but while the thread waits it keeps its P, the
// scheduler's right to run Go code. So it is for calls with transport.Call.MayBlock.
type DirectConn interface {
	ReadConn

	// Direct switches between direct reads and the poller, and reports whether
	// that was possible. It is called while no goroutine reads.
	Direct(on bool) bool

	// ReadDirect waits for input, for about wait. It returns 0 and EAGAIN if
	// there was none.
	ReadDirect(b []byte, wait time.Duration) (int, error)
}

// Options of [Dial].
type Options struct {
	PID      int32 // pmcd's process id, for CREDS
	NotReady bool  // the agent is not ready until it says so ("notready" in pmcd.conf)

	// Depth is how many requests may be in flight; 0 means 1. Agents read one PDU
	// after the other: with more than one in flight an agent need not wait for
	// pmcd between them. An agent that is slow, or has ever said that it is not
	// ready, gets one request at a time.
	Depth int

	// MaxReply is how long a reply may be, in bytes; 0 is transport.DefaultMaxReply.
	// A longer one is read and discarded, and counts as PM_ERR_TOOBIG.
	MaxReply int

	Counts *pdu.Counts // of PDUs sent and received; may be nil

	// OnPDU is called with each PDU that was received or is about to be sent. It
	// must not keep or change b. It may be called for both directions at the same
	// time. It may be nil.
	OnPDU func(sent bool, b []byte)

	// OnState is called after the state has become Late or NotReady, and before it
	// becomes Ready and requests are sent again. Calls do not overlap, and the
	// caller holds no lock. It may be nil.
	OnState func(transport.State)
}

// Dial completes the version exchange, which the PMDA begins, within ctx, and
// returns the Client. From then on the Client owns conn. If Dial fails it closes
// conn.
func Dial(ctx context.Context, conn Conn, opt Options) (*Client, error) {
	raw, err := conn.SyscallConn()
	in := raw
	if two, ok := conn.(ReadConn); ok && err == nil {
		in, err = two.SyscallReadConn()
	}
	if err == nil {
		err = setNonblock(raw, in)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	opt.Depth, opt.MaxReply = max(opt.Depth, 1), cmp.Or(opt.MaxReply, transport.DefaultMaxReply)
	if opt.Counts == nil {
		opt.Counts = new(pdu.Counts)
	}
	if opt.OnPDU == nil {
		opt.OnPDU = func(bool, []byte) {}
	}
	c := &Client{conn: conn, raw: raw, opt: opt, depth: opt.Depth, maxDepth: opt.Depth, done: make(chan struct{})}
	c.writer.Init(raw)
	c.reader.Init(in)
	if c.reader.Rights, err = refuseRights(in); err != nil {
		conn.Close()
		return nil, err
	}
	c.writer.Rights = c.reader.Rights
	c.directConn, _ = conn.(DirectConn)
	stop := context.AfterFunc(ctx, func() {
		conn.SetReadDeadline(time.Unix(1, 0))
		conn.SetWriteDeadline(time.Unix(1, 0))
	})
	err = c.handshake()
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("cannot negotiate with the agent: %w", err)
	}
	if opt.NotReady {
		c.mu.Lock()
		c.startRecovery(transport.NotReady)
		c.mu.Unlock()
	}
	return c, nil
}

// refuseRights reports whether a stream is a Unix socket. If so it prepares the
// socket for [rawio.ReadNoRights]: the agent may belong to another user, and could
// send descriptors.
func refuseRights(raw syscall.RawConn) (unix bool, err error) {
	cerr := raw.Control(func(fd uintptr) {
		domain, gerr := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_DOMAIN)
		if unix = gerr == nil && domain == syscall.AF_UNIX; unix {
			err = rawio.RefuseRights(fd)
		}
	})
	return unix, errors.Join(err, cerr)
}

// setNonblock sets O_NONBLOCK on the descriptors. An [os.File] may have been made
// of a descriptor without it.
func setNonblock(conns ...syscall.RawConn) error {
	for _, c := range conns {
		var err error
		if cerr := c.Control(func(fd uintptr) { err = syscall.SetNonblock(int(fd), true) }); cerr != nil {
			return cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// handshake reads the agent's CREDS and replies with pmcd's. Of the agent's flags
// only PDU_FLAG_AUTH is sent back, as C pmcd does.
func (c *Client) handshake() error {
	b, err := c.read(nil)
	if err != nil {
		return err
	}
	if _, t, _ := pdu.Header(b); t != pdu.TypeCreds {
		return fmt.Errorf("unexpected PDU type (%#x) at initial exchange: %w", int32(t), pdu.ErrnoIPC)
	}
	var agentCreds pdu.Creds
	if _, err := pdu.ParseInto(b, &agentCreds); err != nil {
		return err
	}
	version, flags := 0, pdu.Features(0)
	for _, cred := range agentCreds.Creds {
		if cred.Kind() == pdu.CredVersion {
			version, flags = int(cred.Version()), cred.Flags()
		}
	}
	if version == 0 {
		return fmt.Errorf("no protocol version in the agent's CREDS: %w", pdu.ErrnoIPC)
	}
	c.attrs = flags&(pdu.FeatureAuth|pdu.FeatureContainer) != 0
	ourVersion := pdu.VersionCred(flags & pdu.FeatureAuth)
	if b, err = pdu.Append(b[:0], c.opt.PID, &pdu.Creds{Creds: []pdu.Cred{ourVersion}}); err != nil {
		return err
	}
	c.opt.Counts.Out(pdu.TypeCreds)
	c.opt.OnPDU(true, b)
	_, err = c.conn.Write(b)
	return err
}
