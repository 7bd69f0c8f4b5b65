package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/pdu"
)

// victimParams say what a victim does: it fetches metrics, one at a time, again and
// again.
type victimParams struct {
	Network, Addr string
	IDs           []pdu.PMID
	Every         time.Duration // between two fetches; 0 is at once
}

// victimEvery is the time between two fetches of a victim.
const victimEvery = 10 * time.Millisecond

// lateAfter is the time after which an answer is late.
const lateAfter = time.Second

// Watched is what a victim has measured for one metric.
type watched struct {
	Fetches       int     // since the begin of the measurement
	P50, P99, Max float64 // milliseconds; Max since the start
	Late, Failed  int     // answers since the start
}

// A watch collects the latencies of one metric.
type watch struct {
	took   []time.Duration
	max    time.Duration
	late   int
	failed int
}

// add records a fetch that took d. If fetches are due at intervals, those that were due
// during d would have waited, too.
func (w *watch) add(d, every time.Duration, err error) {
	w.max = max(w.max, d)
	if d > lateAfter {
		w.late++
	}
	if err != nil {
		w.failed++
	}
	for w.took = append(w.took, d); every > 0 && d > every; w.took = append(w.took, d) {
		d -= every
	}
}

func (w *watch) report() watched {
	slices.Sort(w.took)
	t := timing{took: w.took}
	return watched{Fetches: len(w.took), P50: t.at(0.5) / 1e3, P99: t.at(0.99) / 1e3, Max: w.max.Seconds() * 1e3, Late: w.late, Failed: w.failed}
}

// A victimClient is a client that is measured while others attack.
type victimClient struct {
	victimParams
	reqs [][]byte

	mu      sync.Mutex // guards the following, for the goroutine that reads commands
	watches []watch
	conn    *socket // nil: not connected
	stopped bool
}

// victimMain is a child. It replies to the commands "measure" and "report". After the
// second it fetches no more.
func victimMain(params []byte, lines *bufio.Scanner) error {
	v := &victimClient{}
	if err := json.Unmarshal(params, &v.victimParams); err != nil {
		return err
	}
	for _, id := range v.IDs {
		v.reqs = append(v.reqs, encode(&pdu.Fetch{PMIDs: []pdu.PMID{id}}))
	}
	v.watches = make([]watch, len(v.IDs))
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		v.run()
	}()
	for lines.Scan() {
		v.mu.Lock()
		switch lines.Text() {
		case "measure":
			for i := range v.watches {
				v.watches[i].took = v.watches[i].took[:0]
			}
			v.mu.Unlock()
			reply(struct{}{})
		case "report":
			v.stopped = true
			if v.conn != nil { // ends a fetch that is under way
				unix.Shutdown(int(*v.conn), unix.SHUT_RDWR)
			}
			v.mu.Unlock()
			<-done
			var all []watched
			for i := range v.watches {
				all = append(all, v.watches[i].report())
			}
			reply(all)
		default:
			v.mu.Unlock()
		}
	}
	return nil
}

// run fetches until the victim is stopped.
func (v *victimClient) run() {
	var c *client
	for due := time.Now(); ; {
		for i, req := range v.reqs {
			begin := time.Now()
			var err error
			if c == nil {
				c, err = v.dial()
			}
			if err == nil {
				var b []byte
				if b, err = c.call(req); err == nil {
					err = checkValues(b, v.IDs[i:i+1])
				}
			}
			if !v.record(i, time.Since(begin), err) {
				return
			}
			if code := pdu.Errno(0); err != nil && c != nil && !errors.As(err, &code) {
				v.mu.Lock()
				v.conn = nil
				v.mu.Unlock()
				c.Close()
				c = nil
			}
		}
		if now := time.Now(); due.Add(v.Every).After(now) {
			due = due.Add(v.Every)
			time.Sleep(due.Sub(now))
		} else {
			due = now
		}
	}
}

// record keeps a measurement, or returns false when the victim is stopped. A fetch that
// was under way then failed if it was late already.
func (v *victimClient) record(i int, took time.Duration, err error) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.stopped && err != nil && took < lateAfter {
		return false
	}
	v.watches[i].add(took, v.Every, err)
	return !v.stopped
}

// dial connects with a blocking socket.
func (v *victimClient) dial() (*client, error) {
	conn, err := net.DialTimeout(v.Network, v.Addr, connectTimeout)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	if err := raw.Control(func(own uintptr) { fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) }); err != nil || fd < 0 {
		return nil, errors.Join(err, os.ErrInvalid)
	}
	s := socket(fd)
	v.mu.Lock()
	v.conn = &s
	v.mu.Unlock()
	if err := errors.Join(unix.SetNonblock(fd, false), s.timeout(replyTimeout)); err != nil {
		return nil, err
	}
	c, err := greet(s)
	if err != nil {
		v.mu.Lock()
		v.conn = nil
		v.mu.Unlock()
	}
	return c, err
}
