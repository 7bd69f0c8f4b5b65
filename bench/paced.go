package main

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/pdu"
)

// pacedParams are the parameters of a child: clients that fetch at a fixed rate.
type pacedParams struct {
	Port    int
	TLS     bool
	Clients int
	Every   time.Duration // between two fetches of a client
	Burst   bool          // all fetch at the same moment; otherwise one after another
	Logger  bool          // they send the PDUs of pmlogger
	IDs     []pdu.PMID
}

// pacedReport is what the clients have measured since the command "measure".
type pacedReport struct {
	Fetches  int
	P50, P99 float64 // microseconds
	Values   int     // in the first reply
	Skipped  int     // fetches that were due while the client waited for a reply
	Errors   int     // since the start
	Error    string  // the first
}

// gap returns the time between two moments at which fetches are due.
func (p *pacedParams) gap() time.Duration {
	if p.Burst {
		return p.Every
	}
	return p.Every / time.Duration(p.Clients)
}

// due returns when fetch n of all clients is due, from the begin. Client n%Clients sends it.
func (p *pacedParams) due(n int) time.Duration {
	if p.Burst {
		n /= p.Clients
	}
	return time.Duration(n) * p.gap()
}

// pause returns the first moment from now on, in the middle between two at which fetches are
// due: a time of whole intervals that begins then has the same number of fetches each time.
func (p *pacedParams) pause(now time.Duration) time.Duration {
	gap := p.gap()
	return (now+gap/2)/gap*gap + gap/2
}

// A pacer runs the clients in one thread.
type pacer struct {
	pacedParams
	reqs    [][]byte
	length  int // of the first reply
	begin   time.Time
	clients []pacedClient
	epoll   int

	mu   sync.Mutex // guards the following, for the goroutine that reads commands
	from time.Time  // of the measurement
	took []time.Duration
	now  pacedReport
}

type pacedClient struct {
	*client
	sent time.Time // of the fetch without a reply; zero if there is none
}

// pacedMain is a child. It writes a line when all clients have had a reply. It replies to
// the commands "measure" and "report".
func pacedMain(params []byte, lines *bufio.Scanner) error {
	p := &pacer{}
	if err := json.Unmarshal(params, &p.pacedParams); err != nil {
		return err
	}
	p.reqs = p.requests()
	if err := p.open(); err != nil {
		return err
	}
	p.begin = time.Now()
	go func() {
		runtime.LockOSThread()
		p.run()
	}()
	reply(struct{}{})
	for lines.Scan() {
		switch lines.Text() {
		case "measure":
			time.Sleep(time.Until(p.begin.Add(p.pause(time.Since(p.begin)))))
			p.mu.Lock()
			p.from, p.took, p.now.Skipped = time.Now(), nil, 0
			p.mu.Unlock()
			reply(struct{}{})
		case "report":
			reply(p.report())
		}
	}
	return nil
}

// open connects the clients. Each fetches once.
func (p *pacer) open() (err error) {
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	p.clients = make([]pacedClient, p.Clients)
	for i := range p.clients {
		c := &p.clients[i]
		fd := -1
		if p.TLS {
			if c.client, err = dialSecure(p.Port, clientTLS(nil)); err == nil {
				fd = int(c.conn.(*tls.Conn).NetConn().(socketConn).socket)
			}
		} else if c.client, err = dial(p.Port); err == nil {
			fd = int(c.conn.(socket))
		}
		if err == nil && p.Logger && i < loggerStarts {
			err = loggerStart(c.client, p.IDs)
		}
		var b []byte
		if err == nil {
			err = c.send(p.reqs)
		}
		if err == nil {
			b, err = c.reply()
		}
		if err == nil {
			p.length = len(b)
			p.now.Values, err = pacedValues(b, p.IDs)
		}
		if err == nil {
			err = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)})
		}
		if err != nil {
			return fmt.Errorf("client %d: %w", i, err)
		}
	}
	return nil
}

func (c *pacedClient) send(reqs [][]byte) error {
	for _, b := range reqs {
		if _, err := c.conn.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// pacedValues returns the number of values in a reply with values of ids.
func pacedValues(b []byte, ids []pdu.PMID) (n int, err error) {
	_, m, err := pdu.Parse(slices.Clone(b))
	if err != nil {
		return 0, err
	}
	var sets []pdu.ValueSet
	switch m := m.(type) {
	case *pdu.Result:
		sets = m.Sets
	case *pdu.HighResResult:
		sets = m.Sets
	default:
		return 0, fmt.Errorf("%v in reply to a fetch", m.Type())
	}
	for _, s := range sets {
		n += len(s.Values)
	}
	if n == 0 {
		return 0, pdu.ErrnoValue
	}
	return n, haveIDs(sets, ids)
}

// run sends fetches when they are due, and reads replies. It does not return.
func (p *pacer) run() {
	events := make([]unix.EpollEvent, 64)
	for n := 0; ; {
		wait := p.due(n) - time.Since(p.begin)
		if wait <= 0 {
			p.fetch(&p.clients[n%p.Clients])
			n++
			continue
		}
		// In whole milliseconds: the begin is fixed, so a delay does not add to the next.
		k, _ := unix.EpollWait(p.epoll, events, int((wait+time.Millisecond-1)/time.Millisecond))
		for _, e := range events[:max(0, k)] {
			p.receive(&p.clients[e.Fd])
		}
	}
}

// fetch sends the PDUs of a fetch, unless the client still waits for a reply.
func (p *pacer) fetch(c *pacedClient) {
	if c.client == nil {
		return
	}
	if !c.sent.IsZero() {
		p.mu.Lock()
		p.now.Skipped++
		p.mu.Unlock()
		return
	}
	c.sent = time.Now()
	if err := c.send(p.reqs); err != nil {
		p.failed(c, err)
	}
}

// receive reads a reply.
func (p *pacer) receive(c *pacedClient) {
	if c.client == nil {
		return
	}
	b, err := c.reply()
	now := time.Now()
	if err == nil && c.sent.IsZero() {
		err = errors.New("a reply without a request")
	}
	if err == nil && len(b) != p.length { // with other numbers of instances, perhaps
		_, err = pacedValues(b, p.IDs)
	}
	if err != nil {
		p.failed(c, err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.from.IsZero() && !c.sent.Before(p.from) {
		p.took = append(p.took, now.Sub(c.sent))
	}
	c.sent = time.Time{}
}

// failed records an error. Unless it is an ERROR PDU, the connection is of no further use.
func (p *pacer) failed(c *pacedClient, err error) {
	c.sent = time.Time{}
	if code := pdu.Errno(0); !errors.As(err, &code) {
		c.Close() // epoll forgets it
		c.client = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now.Errors++; p.now.Error == "" {
		p.now.Error = err.Error()
	}
}

func (p *pacer) report() pacedReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.Sort(p.took)
	t := timing{took: p.took}
	r := p.now
	r.Fetches, r.P50, r.P99 = len(p.took), t.at(0.5), t.at(0.99)
	return r
}
