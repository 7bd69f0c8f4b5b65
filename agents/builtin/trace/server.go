package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/internal/tracepdu"
)

const (
	// restTimeout is how long the rest of a PDU may take after its first byte, and
	// writeTimeout how long a client may take to read ACKs, when its buffer is full.
	restTimeout  = 60 * time.Second
	writeTimeout = 10 * time.Second

	// maxRate is how many PDUs of all clients the agent handles in a second. pmdatrace
	// handles fewer.
	maxRate = 100_000

	// maxTime is how many seconds a transaction may take. With longer ones, or NaN, total_time
	// could stay infinite. Some take decades, where the clock is set after the start of the host.
	maxTime = 1e12

	// maxVerbose is how many lines a minute the debug option appl0 has.
	maxVerbose = 1000
)

// A server receives what clients send, with a goroutine for each of them. A slow or hostile
// client has no effect on others or on pmcd.
type server struct {
	log      *slog.Logger
	listener net.Listener
	peers    *peers
	add      func(o owner, kind tracepdu.Kind, tag []byte, v float64) bool
	max      int // clients
	files    int // a connection with this descriptor or a higher one is refused
	pace     pace

	debug   atomic.Bool // log connections and data
	verbose limiter     // of these lines: clients must not fill the disk
	warn    limiter

	mu      sync.Mutex // guards the following
	clients map[*net.TCPConn]bool
	held    map[owner]int // clients of each
	last    int           // number of the last client
	closed  bool

	done chan struct{} // closed by close
	wg   sync.WaitGroup
}

// start accepts clients until close.
func (s *server) start() {
	s.clients, s.held = make(map[*net.TCPConn]bool), make(map[owner]int)
	s.done = make(chan struct{})
	s.verbose.max = maxVerbose
	s.wg.Go(s.acceptLoop)
}

// close closes the port and all connections, and waits for their goroutines.
func (s *server) close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	close(s.done)
	s.listener.Close()
	for c := range s.clients {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *server) acceptLoop() {
	const shortest, longest = 10 * time.Millisecond, time.Second
	delay := shortest
	for {
		c, err := s.listener.Accept()
		if err != nil {
			// The connection may have ended, or there are too few descriptors.
			if !s.wait(delay) || errors.Is(err, net.ErrClosed) {
				return
			}
			s.warn.log(s.log, slog.LevelWarn, "{agent}: cannot accept a connection: {error}", "error", err)
			delay = min(2*delay, longest)
			continue
		}
		delay = shortest
		s.accepted(c.(*net.TCPConn))
	}
}

// wait waits for d. It reports false if the server is closed first.
func (s *server) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.done:
		return false
	}
}

// accepted greets or refuses a client.
func (s *server) accepted(c *net.TCPConn) {
	// Now: most clients wait for the greeting and have not closed their sockets.
	o := ownerOf(addrPortOf(c.RemoteAddr()), addrPortOf(c.LocalAddr()))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return
	}
	s.last++
	num := s.last
	err := s.room(c, o)
	var release func()
	if err == nil {
		release, err = s.peers.admit(c, num)
	}
	if err != nil {
		code := int32(tracepdu.ErrPermission)
		if errors.Is(err, access.ErrConnLimit) {
			code = tracepdu.ErrConnLimit
		}
		s.warn.log(s.log, slog.LevelWarn, "{agent}: connection from {address} refused: {error}", "address", c.RemoteAddr(), "error", err)
		// A new socket has room for an ACK.
		c.SetWriteDeadline(time.Now().Add(writeTimeout))
		c.Write(ack(nil, code))
		c.Close()
		return
	}
	s.clients[c] = true
	s.held[o]++
	s.wg.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				s.log.Error("{agent}: panicked: {error}", "error", fmt.Sprintf("%v\n%s", v, debug.Stack()))
			}
			s.mu.Lock()
			delete(s.clients, c)
			if s.held[o]--; s.held[o] == 0 {
				delete(s.held, o)
			}
			s.mu.Unlock()
			c.Close()
			release()
		}()
		s.serve(c, num, o)
	})
}

// A fullError is the reason for which a client is refused that the rules allow.
type fullError struct {
	what string
	max  int
}

func (e *fullError) Error() string        { return fmt.Sprintf("limit of %d %s reached", e.max, e.what) }
func (e *fullError) Is(target error) bool { return target == access.ErrConnLimit }

// room returns an error if there is no room for the client of c. The caller holds mu.
func (s *server) room(c *net.TCPConn, o owner) error {
	if len(s.clients) >= s.max {
		return &fullError{"clients", s.max}
	}
	if n := s.held[o]; n >= s.max-len(s.clients) {
		return &fullError{fmt.Sprint("clients of ", o), n}
	}
	fd := 0
	if raw, err := c.SyscallConn(); err == nil {
		raw.Control(func(n uintptr) { fd = int(n) })
	}
	if fd >= s.files { // the kernel uses the lowest number that is free
		return &fullError{"descriptors", s.files}
	}
	return nil
}

// ack appends an ACK to b.
func ack(b []byte, n int32) []byte { return tracepdu.AppendACK(b, int32(os.Getpid()), n) }

// serve handles the PDUs of a client until the connection ends.
func (s *server) serve(c *net.TCPConn, num int, o owner) {
	// As with pmdatrace, the agent's close is a reset: libpcp_trace gets ECONNRESET, and
	// not SIGPIPE, at its next write.
	c.SetLinger(0)
	if s.debug.Load() {
		s.verbose.log(s.log, slog.LevelInfo, "{agent}: client {client} connected from {address}", "client", num, "address", c.RemoteAddr())
	}
	err := s.exchange(c, num, o)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
		if s.debug.Load() {
			s.verbose.log(s.log, slog.LevelInfo, "{agent}: client {client} disconnected", "client", num)
		}
	default:
		s.warn.log(s.log, slog.LevelWarn, "{agent}: client {client} at {address} disconnected: {error}", "client", num, "address", c.RemoteAddr(), "error", err)
	}
}

func (s *server) exchange(c *net.TCPConn, num int, o owner) error {
	out := make([]byte, 0, 4*tracepdu.ACKLen)
	flush := func() error {
		if len(out) == 0 {
			return nil
		}
		c.SetWriteDeadline(time.Now().Add(writeTimeout))
		_, err := c.Write(out)
		out = out[:0]
		return err
	}
	out = ack(out, tracepdu.Version)
	in := bufio.NewReaderSize(c, 2048)
	for {
		if len(out) == cap(out) || in.Buffered() == 0 {
			if err := flush(); err != nil {
				return err
			}
		}
		b, err := nextPDU(c, in)
		if err != nil {
			return errors.Join(flush(), err)
		}
		d, tag, err := tracepdu.ParseData(b)
		if err == nil && d.Kind == tracepdu.Transaction {
			if !(math.Abs(d.Value) <= maxTime) {
				err = fmt.Errorf("a transaction of %v seconds", d.Value)
			}
			d.Value = max(d.Value, 0) // the clock was set back meanwhile
		}
		if err != nil {
			// The ACKs of PDUs before this one.
			return errors.Join(flush(), err)
		}
		if s.debug.Load() {
			s.verbose.log(s.log, slog.LevelInfo, "{agent}: client {client}: {text}", "client", num, "text", fmt.Sprintf("type %d, tag %q, value %v", d.Kind, tag, d.Value))
		}
		if !s.add(o, d.Kind, tag, d.Value) {
			s.warn.log(s.log, slog.LevelWarn, "{agent}: the tag {name:q} of client {client} at {address} is left out: the memory for tags of {owner} is used up; trace.control.reset frees it",
				"name", string(tag), "client", num, "address", c.RemoteAddr(), "owner", o)
		}
		if d.Sync {
			out = ack(out, int32(d.Kind))
		}
		in.Discard(len(b))
		if d := s.pace.next(time.Now()); d > 0 {
			if err := flush(); err != nil {
				return err
			}
			if !s.wait(d) {
				return net.ErrClosed
			}
		}
	}
}
