package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents/rawio"
	"github.com/gopcp/pmcd/pdu"
)

// A Conn is a byte stream to a PMDA: a TCP or Unix connection, or a pair of
// pipes. A read that failed at its deadline can be taken up again.
type Conn interface {
	io.ReadWriteCloser
	syscall.Conn // of the side that Write writes to; see ReadConn
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// ReadConn is implemented by a Conn of two descriptors: that of the side that
// Read reads from.
type ReadConn interface {
	SyscallReadConn() (syscall.RawConn, error)
}

// A DirectConn is a Conn that can be read out of Go's poller, by a thread that
// waits itself. That is quicker, but takes its place in the scheduler for a
// while: it is for a caller that has it all for itself.
type DirectConn interface {
	ReadConn

	// Direct says how the Conn is read from now on, and reports whether that
	// is possible. Nobody is reading.
	Direct(on bool) bool

	// ReadDirect waits for some time, and returns 0 and EAGAIN if nothing has
	// come.
	ReadDirect(b []byte, wait time.Duration) (int, error)
}

// Options of [Dial].
type Options struct {
	PID      int32 // of pmcd, for CREDS
	NotReady bool  // the agent will say when it is ready ("notready" in pmcd.conf)

	// Depth is how many requests may be outstanding; 0 means 1. More than one
	// keep an agent from waiting for us: agents read one PDU after the other.
	// One that is slow, or has ever said that it is not ready, gets one.
	Depth int

	Counts *pdu.Counts // of PDUs sent and received; may be nil

	// Tap is shown each PDU that was received or is about to be sent. It must
	// not keep or change it, and may be called at the same time for both
	// directions; may be nil.
	Tap func(sent bool, b []byte)

	// OnState is called when the state has changed or, before requests are
	// let through again, is about to be Ready. One call at a time, by a
	// goroutine that holds no lock; may be nil.
	OnState func(State)
}

// Dial completes the version exchange that the PMDA opens, within ctx, and
// returns the Client. The Client owns conn from then on; if Dial fails it has
// closed conn.
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
	opt.Depth = max(opt.Depth, 1)
	if opt.Counts == nil {
		opt.Counts = new(pdu.Counts)
	}
	if opt.Tap == nil {
		opt.Tap = func(bool, []byte) {}
	}
	c := &Client{conn: conn, raw: raw, opt: opt, done: make(chan struct{})}
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
		c.startRecovery(NotReady, nil)
		c.mu.Unlock()
	}
	return c, nil
}

// refuseRights reports whether a stream is a Unix socket, and prepares it for
// [rawio.ReadNoRights]: the agent may be another user's.
func refuseRights(raw syscall.RawConn) (unix bool, err error) {
	cerr := raw.Control(func(fd uintptr) {
		domain, gerr := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_DOMAIN)
		if unix = gerr == nil && domain == syscall.AF_UNIX; unix {
			err = rawio.RefuseRights(fd)
		}
	})
	return unix, errors.Join(err, cerr)
}

// setNonblock makes sure that neither does block: an [os.File] may have been made of
// a descriptor that does.
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

// greet answers the agent's CREDS. It gets back of its flags PDU_FLAG_AUTH
// only, as from C pmcd.
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
		return fmt.Errorf("agent states no protocol version: %w", pdu.ErrnoIPC)
	}
	c.attrs = flags&(pdu.FeatureAuth|pdu.FeatureContainer) != 0
	ourVersion := pdu.VersionCred(flags & pdu.FeatureAuth)
	if b, err = pdu.Append(b[:0], c.opt.PID, &pdu.Creds{Creds: []pdu.Cred{ourVersion}}); err != nil {
		return err
	}
	c.opt.Counts.Out(pdu.TypeCreds)
	c.opt.Tap(true, b)
	_, err = c.conn.Write(b)
	return err
}
