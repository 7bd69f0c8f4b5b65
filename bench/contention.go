package main

import (
	"bytes"
	"context"
	"net"
	"slices"
	"time"

	"github.com/gopcp/pmcd/bench/attack"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

// contention measures a client that fetches from an agent: first alone, and then for the time d
// beside another client, which connects again when its connection ends.
func contention(d time.Duration, other func(r *run) (attack.Script, error)) func(r *run) error {
	return func(r *run) error {
		script, err := other(r)
		if err != nil {
			return err
		}
		script.Once = slices.Concat(encode(pdutest.Creds(0)), profile, script.Once)
		ids, err := r.ids(sampleOne)
		if err != nil {
			return err
		}
		l, err := r.fetchLoad(1, true, ids...)
		if err != nil {
			return err
		}
		l.time = time.Second
		alone := r.measure(l)

		// The client connects before the other one, because C pmcd does not accept
		// it afterwards.
		c, err := r.dial()
		if err != nil {
			return err
		}
		l.open = func() (*client, error) {
			if first := c; first != nil {
				c = nil
				return first, nil
			}
			return r.dial()
		}
		before := rss(r.pid())
		resetPeak(r.pid())
		ctx, cancel := context.WithCancel(context.Background())
		a := attack.Start(ctx, attack.Attack{
			Conns: 1, Retry: 10 * time.Millisecond, Script: func(int) attack.Script { return script },
			Dial: func(ctx context.Context) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, "tcp4", r.addr())
				if err == nil { // it gives up, or C pmcd would block for ever
					err = conn.SetWriteDeadline(time.Now().Add(connectTimeout))
				}
				return conn, err
			},
		})
		l.time = d
		t := r.measure(l)
		peak := memoryOf(r.pid(), "VmHWM")
		cancel()
		<-a.Done()
		r.got["p99/alone"] = t.at(0.99) / alone.at(0.99)
		r.got["RSS growth"] = float64(peak-before) / 1024
		return nil
	}
}

// waiting fetches from the slow agent, with or without success.
func waiting(*run) (attack.Script, error) {
	slow := encode(&pdu.Fetch{PMIDs: []pdu.PMID{pdu.NewPMID(domainSlow, 0, 0)}})
	return attack.Script{Repeat: [][]byte{slow}, Wait: true}, nil
}

// halfPDU sends the first half of a request.
func halfPDU(*run) (attack.Script, error) {
	req := encode(&pdu.DescReq{})
	return attack.Script{Once: req[:len(req)/2]}, nil
}

// flood sends requests again and again and reads no reply.
func flood(req []byte) attack.Script {
	return attack.Script{Repeat: [][]byte{bytes.Repeat(req, 32<<10/len(req))}, Unread: true}
}

// floodFetch is flood with fetches of 20 metrics.
func floodFetch(r *run) (attack.Script, error) {
	ids, err := r.ids(benchMetrics...)
	return flood(encode(&pdu.Fetch{PMIDs: ids})), err
}

// floodTraverse is flood with requests for all names.
func floodTraverse(*run) (attack.Script, error) {
	return flood(encode(&pdu.PMNSTraverse{})), nil
}
