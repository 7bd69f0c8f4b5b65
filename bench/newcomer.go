package main

import (
	"bufio"
	"encoding/json"
	"net"
	"sync"
	"time"

	"github.com/gopcp/pmcd/bench/attack"
	"github.com/gopcp/pmcd/pdu"
)

// newcomerParams say what newcomers do: they connect again and again, and fetch a metric.
type newcomerParams struct {
	Network, Addr string
	ID            pdu.PMID
}

// newcomerEvery is the time between two newcomers.
const newcomerEvery = 50 * time.Millisecond

// What newcomers measure: the times from before the connect to the greeting and to the first
// value, and that of the first fetch of a client that has been connected for newcomerEvery.
const (
	greetingTime = iota
	firstValueTime
	idleFetchTime
	newcomerTimes
)

var newcomerNames = [newcomerTimes]string{"greeting", "first value", "idle client"}

// newcomers measure beside attackers.
type newcomers struct {
	newcomerParams
	request []byte

	mu      sync.Mutex // guards the following, for the goroutine that reads commands
	watches [newcomerTimes]watch
	stopped bool
}

// newcomerMain is a child. It replies to the commands "measure" and "report", as victimMain
// does.
func newcomerMain(params []byte, lines *bufio.Scanner) error {
	n := &newcomers{}
	if err := json.Unmarshal(params, &n.newcomerParams); err != nil {
		return err
	}
	n.request = encode(&pdu.Profile{}, &pdu.Fetch{PMIDs: []pdu.PMID{n.ID}})
	go n.run()
	for lines.Scan() {
		n.mu.Lock()
		switch lines.Text() {
		case "measure":
			n.watches = [newcomerTimes]watch{}
			reply(struct{}{})
		case "report":
			n.stopped = true
			var all []watched
			for i := range n.watches {
				all = append(all, n.watches[i].report())
			}
			reply(all)
		}
		n.mu.Unlock()
	}
	return nil
}

// run connects one client after the other, until the process ends.
func (n *newcomers) run() {
	var idle *client
	for due := time.Now(); ; time.Sleep(time.Until(due)) {
		if idle != nil {
			n.measure(idleFetchTime, time.Now(), func() error { return n.fetch(idle) })
			idle.Close()
		}
		begin := time.Now()
		var c *client
		n.measure(greetingTime, begin, func() (err error) { c, err = n.connect(); return err })
		if c != nil {
			n.measure(firstValueTime, begin, func() error { return n.fetch(c) })
			c.Close()
		}
		idle, _ = n.connect()
		if due = due.Add(newcomerEvery); due.Before(time.Now()) {
			due = time.Now()
		}
	}
}

// measure calls f and records how long it took since begin. Where newcomers were due
// meanwhile, these would have waited, too.
func (n *newcomers) measure(what int, begin time.Time, f func() error) {
	err := f()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.stopped {
		n.watches[what].add(time.Since(begin), newcomerEvery, err)
	}
}

// connect returns a client that was greeted, and has asked for nothing yet.
func (n *newcomers) connect() (*client, error) {
	conn, err := net.DialTimeout(n.Network, n.Addr, connectTimeout)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(replyTimeout))
	return greetWith(conn, attack.Encode(&pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(0)}}))
}

// fetch fetches the metric.
func (n *newcomers) fetch(c *client) error {
	b, err := c.call(n.request)
	if err == nil {
		err = checkValues(b, []pdu.PMID{n.ID})
	}
	return err
}
