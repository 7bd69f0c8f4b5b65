package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"time"

	"github.com/gopcp/pmcd/bench/attack"
)

// attackParams say what attackers do.
type attackParams struct {
	Name    string // of the attack
	Addr    string // TCP
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
	h := attackScenarios[attackNamed(p.Name)]
	a := h.attack
	a.Script = h.script(&p.Metrics)
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
