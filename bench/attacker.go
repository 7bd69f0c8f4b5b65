package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/gopcp/pmcd/bench/attack"
)

// attackParams say what attackers do.
type attackParams struct {
	Name    string  // of the attack
	Addr    string  // TCP
	Rate    float64 // bytes a second; 0 is that of the attack
	Begins  float64 // connections a second; 0 is that of the attack
	Blind   bool    // there are no replies
	Metrics attack.Metrics
}

// attackReport is what attackers have done since the command before.
type attackReport struct {
	attack.Counts
	Seconds float64
}

// attackMain is a child: it attacks, replies when all clients are connected, and
// replies to each command with what they have done since the last one.
func attackMain(params []byte, lines *bufio.Scanner) error {
	var p attackParams
	if err := json.Unmarshal(params, &p); err != nil {
		return err
	}
	h := attackNamed(p.Name)
	if h == nil || h.attack == nil {
		return fmt.Errorf("no attack %q", p.Name)
	}
	a := h.attack(&p.Metrics)
	if p.Rate > 0 {
		a.Rate = p.Rate
	}
	if p.Begins > 0 {
		a.Connects = p.Begins
	}
	a.Blind = p.Blind
	a.Dial = func(ctx context.Context) (net.Conn, error) {
		d := net.Dialer{Timeout: connectTimeout}
		return d.DialContext(ctx, "tcp4", p.Addr)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := attack.Start(ctx, a)
	select {
	case <-r.Ready():
	case <-time.After(rampTimeout):
	}
	since, before := time.Now(), r.Counts()
	reply(attackReport{Counts: before})
	for lines.Scan() {
		now, counts := time.Now(), r.Counts()
		reply(attackReport{counts.Sub(before), now.Sub(since).Seconds()})
		since, before = now, counts
	}
	return nil
}

// sinkMain is a child: it discards what is sent to a port of its own, which is its first
// reply.
func sinkMain(_ []byte, lines *bufio.Scanner) error {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go attack.Discard(l)
	reply(l.Addr().String())
	for lines.Scan() {
	}
	return nil
}
