package main

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// pacedParams are the parameters of a child: clients that do something at fixed times.
type pacedParams struct {
	Network, Addr string
	TLS           bool
	Clients       int
	Every         time.Duration // between two fetches of a client
	Burst         bool          // all fetch at the same moment; otherwise one after another
	Logger        bool          // they send the PDUs of pmlogger
	Newcomers     bool          // they connect anew each time
	IDs           []pdu.PMID
}

// A pacedReport is what the clients have measured.
type pacedReport struct {
	Values  int // in the first reply
	Watches []watched
}

// What is measured. Newcomers measure the times from before the connect to the greeting and to the
// first value, and that of the first fetch of a client that has been connected for Every. Others
// have fetchTime only.
const (
	greetingTime = iota
	firstValueTime
	idleFetchTime
	watchKinds

	fetchTime = 0
)

var newcomerNames = [watchKinds]string{"greeting", "first value", "idle client"}

// lateAfter is the time after which an answer is late.
const lateAfter = time.Second

// Watched is what was measured of one kind.
type watched struct {
	Fetches       int     // since the command "measure"
	P50, P99, Max float64 // milliseconds; Max since the start
	Late, Failed  int     // answers since the start
	Error         string  // the first failure
}

// A watch collects latencies.
type watch struct {
	took []time.Duration
	max  time.Duration
	watched
}

// add records a fetch that took d. Those that were due at intervals during d would have waited, too.
func (w *watch) add(d, every time.Duration, err error) {
	w.max = max(w.max, d)
	if d > lateAfter {
		w.Late++
	}
	if err != nil {
		if w.Failed++; w.Error == "" {
			w.Error = err.Error()
		}
	}
	for w.took = append(w.took, d); d > every; w.took = append(w.took, d) {
		d -= every
	}
}

func (w *watch) report() watched {
	slices.Sort(w.took)
	t, r := timing{took: w.took}, w.watched
	r.Fetches, r.P50, r.P99, r.Max = len(w.took), t.at(0.5)/1e3, t.at(0.99)/1e3, w.max.Seconds()*1e3
	return r
}

// A paced has the clients.
type paced struct {
	pacedParams
	cfg    *tls.Config
	reqs   [][]byte // of a fetch, each of which is a write of its own
	length int      // of the first reply
	values int      // in it
	begin  time.Time

	mu      sync.Mutex // guards the following
	watches [watchKinds]watch
	since   []time.Time // by client: of the fetch that is under way
}

// pacedMain is a child. It replies when all clients have had a reply, and to the commands
// "measure", after which a measurement begins, and "report".
func pacedMain(params []byte, lines *bufio.Scanner) error {
	runtime.GOMAXPROCS(1)
	p := &paced{}
	if err := json.Unmarshal(params, &p.pacedParams); err != nil {
		return err
	}
	conns, err := p.open()
	if err != nil {
		return err
	}
	p.begin = time.Now()
	for i, c := range conns {
		go p.client(i, c)
	}
	reply(struct{}{})
	for lines.Scan() {
		if lines.Text() == "report" {
			reply(p.report())
			continue
		}
		time.Sleep(time.Until(p.begin.Add(p.pause(time.Since(p.begin)))))
		p.mu.Lock()
		for i := range p.watches {
			p.watches[i].took = nil
		}
		p.mu.Unlock()
		reply(struct{}{})
	}
	return nil
}

// gap returns the time between two moments at which fetches are due.
func (p *pacedParams) gap() time.Duration {
	if p.Burst {
		return p.Every
	}
	return p.Every / time.Duration(p.Clients)
}

// due returns when fetch n of client i is due, from the begin.
func (p *pacedParams) due(i, n int) time.Duration {
	if p.Burst {
		i = 0
	}
	return time.Duration(n)*p.Every + time.Duration(i)*p.gap()
}

// pause returns the first moment from now on, in the middle between two at which fetches are
// due: a time of whole intervals that begins then has the same number of fetches each time.
func (p *pacedParams) pause(now time.Duration) time.Duration {
	gap := p.gap()
	return (now+gap/2)/gap*gap + gap/2
}

// open connects the clients. Each fetches once.
func (p *paced) open() (conns []*client, err error) {
	if p.TLS {
		p.cfg = clientTLS()
	}
	p.reqs, p.since = p.requests(), make([]time.Time, p.Clients)
	for i := range p.Clients {
		c, err := p.connect()
		if err == nil && p.Logger && i < loggerStarts {
			c.SetDeadline(time.Time{}) // the parent waits for childTimeout
			err = loggerStart(c, p.IDs)
		}
		if err == nil {
			err = p.fetch(c)
		}
		if err != nil {
			return nil, fmt.Errorf("client %d: %w", i, err)
		}
		conns = append(conns, c)
	}
	return conns, nil
}

// connect returns a client that was greeted. A newcomer has asked for nothing yet.
func (p *paced) connect() (*client, error) {
	first := profile
	if p.Newcomers {
		first = nil
	}
	return dial(p.Network, p.Addr, p.cfg, first)
}

// fetch fetches, and checks the reply if it has another length than the first one.
func (p *paced) fetch(c *client) error {
	c.SetDeadline(time.Now().Add(replyTimeout))
	for _, b := range p.reqs {
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
	b, err := c.reply()
	if err != nil || len(b) == p.length {
		return err
	}
	sets, err := valuesOf(b, p.IDs)
	if err != nil {
		return err
	}
	n, err := count(sets, false)
	if p.length == 0 {
		p.length, p.values = len(b), n
	}
	return err
}

// client fetches when it is due. It does not return. If c is nil, it connects.
func (p *paced) client(i int, c *client) {
	for n := 0; ; n++ {
		time.Sleep(time.Until(p.begin.Add(p.due(i, n))))
		begin := time.Now()
		p.mu.Lock()
		p.since[i] = begin
		p.mu.Unlock()
		if p.Newcomers {
			c = p.newcomer(c)
		} else {
			var err error
			if c == nil {
				c, err = p.connect()
			}
			if err == nil {
				err = p.fetch(c)
			}
			p.add(fetchTime, begin, err)
			if isBroken(err) && c != nil {
				c.Close()
				c = nil
			}
		}
		p.mu.Lock()
		p.since[i] = time.Time{}
		p.mu.Unlock()
		for p.due(i, n+1) < time.Since(p.begin) { // add has counted these
			n++
		}
	}
}

// newcomer measures what a new client waits for. It returns the next idle client.
func (p *paced) newcomer(idle *client) *client {
	begin := time.Now()
	if idle != nil {
		p.add(idleFetchTime, begin, p.fetch(idle))
		idle.Close()
	}
	begin = time.Now()
	c, err := p.connect()
	p.add(greetingTime, begin, err)
	if err == nil {
		p.add(firstValueTime, begin, p.fetch(c))
		c.Close()
	}
	idle, _ = p.connect()
	return idle
}

func (p *paced) add(kind int, begin time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watches[kind].add(time.Since(begin), p.Every, err)
}

// report returns the measurements. An answer that is late already counts.
func (p *paced) report() pacedReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, since := range p.since {
		if d := time.Since(since); !since.IsZero() && d > lateAfter {
			p.watches[fetchTime].add(d, p.Every, nil)
		}
	}
	r := pacedReport{Values: p.values}
	for i := range p.watches {
		r.Watches = append(r.Watches, p.watches[i].report())
	}
	return r
}
