package main

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/pdu"
)

// contention measures a client that fetches from an agent: first alone, and then
// for the time d while other runs. Other is called with a channel that is closed at
// the end.
func contention(d time.Duration, other func(r *run, stop <-chan struct{})) func(r *run) error {
	return func(r *run) error {
		l, err := r.fetchLoad(1, sampleOne)
		if err != nil {
			return err
		}
		l.time = time.Second
		alone := r.measure(l)
		before := rss(r.pid())

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
		stop := make(chan struct{})
		peak := before
		var wg sync.WaitGroup
		wg.Go(func() { other(r, stop) })
		wg.Go(func() {
			for tick := time.NewTicker(20 * time.Millisecond); ; {
				select {
				case <-stop:
					tick.Stop()
					return
				case <-tick.C:
					peak = max(peak, rss(r.pid()))
				}
			}
		})
		l.time = d
		t := r.measure(l)
		close(stop)
		wg.Wait()
		r.got["p99/alone"] = t.at(0.99) / alone.at(0.99)
		r.got["RSS growth"] = float64(peak-before) / 1024
		return nil
	}
}

// until calls act with a new connection, again and again, until stop is closed.
// Then it shuts the connection down, so that reads and writes of act fail.
func until(stop <-chan struct{}, r *run, act func(s socket, c *client)) {
	for {
		s, err := connect(r.port)
		if err == nil {
			var c *client
			if c, err = greet(s); err == nil {
				over := make(chan struct{})
				var wg sync.WaitGroup
				wg.Go(func() {
					select {
					case <-stop:
						unix.Shutdown(int(s), unix.SHUT_RDWR)
					case <-over:
					}
				})
				act(s, c)
				close(over)
				wg.Wait()
				c.Close()
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// waiting fetches from the slow agent, with or without success.
func waiting(r *run, stop <-chan struct{}) {
	until(stop, r, func(_ socket, c *client) {
		for {
			if _, err := c.fetch(slowCount); err != nil {
				return
			}
		}
	})
}

// halfPDU sends the first half of a request.
func halfPDU(r *run, stop <-chan struct{}) {
	req := encode(&pdu.DescReq{PMID: numClients})
	until(stop, r, func(s socket, c *client) {
		if _, err := s.Write(req[:len(req)/2]); err == nil {
			c.r.Next()
		}
	})
}

// flood sends a request again and again and reads no reply.
func flood(req []byte) func(r *run, stop <-chan struct{}) {
	return func(r *run, stop <-chan struct{}) {
		var many []byte
		for len(many) < 32<<10 {
			many = append(many, req...)
		}
		until(stop, r, func(s socket, _ *client) {
			for {
				if _, err := s.Write(many); err != nil {
					return
				}
			}
		})
	}
}

// floodFetch is flood with fetches of 20 metrics.
func floodFetch(r *run, stop <-chan struct{}) {
	ids, err := r.ids(benchMetrics...)
	if err != nil {
		r.count(timing{errs: 1, err: err})
		return
	}
	flood(encode(&pdu.Fetch{PMIDs: ids}))(r, stop)
}
