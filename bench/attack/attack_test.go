package attack

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// metrics are any.
var metrics = Metrics{
	Own: pdu.NewPMID(2, 6, 1), OwnInDom: pdu.NewInDom(2, 3), Cells: pdu.NewPMID(60, 4, 1), CellsInDom: pdu.NewInDom(60, 40),
	Wide: pdu.NewPMID(60, 0, 0), WideLen: 2500, Few: pdu.NewPMID(60, 2, 0), FewLen: 60, Large: pdu.NewPMID(243, 0, 1), All: []pdu.PMID{1, 2, 3}, Piped: pdu.NewPMID(29, 0, 10),
}

// TestScripts checks that all that is sent is whole, legal PDUs of at most the length
// that pmcd accepts, except for the half PDUs that are meant to be.
func TestScripts(t *testing.T) {
	for name, script := range map[string]func(int) Script{
		"excluded instances":   metrics.ExcludedInsts(),
		"profiles":             metrics.Profiles(4),
		"stream":               metrics.Stream(),
		"unread":               metrics.Unread(15<<20, 3),
		"unread repeats":       metrics.Repeats(),
		"read repeats":         metrics.ReadRepeats(),
		"profiles waiting":     metrics.Waiting(1000),
		"large":                metrics.Distinct(),
		"in TLS and not":       Both(InTLS(metrics.Repeats()), 2, metrics.Small()),
		"repeated PMID":        metrics.RepeatedPMID(),
		"all metrics":          metrics.AllMetrics(),
		"alternating contexts": metrics.Alternating(),
		"mixed":                metrics.Mixed(1 << 20),
		"dribble":              metrics.Dribble(16),
		"logins":               Logins(),
	} {
		for i := range 5 {
			s := script(i)
			whole := len(s.Repeat) > 0 || s.Unread
			r := pdu.NewReader(bytes.NewReader(slices.Concat(s.Once, slices.Concat(s.Repeat...))), maxPDU)
			n := 0
			for {
				b, err := r.Next()
				if err == io.EOF || (!whole || name == "stream") && err == io.ErrUnexpectedEOF {
					break
				}
				if err == nil {
					_, _, err = pdu.Parse(b)
				}
				if err != nil {
					t.Fatalf("%s, connection %d, PDU %d: %v", name, i, n, err)
				}
				n++
			}
			if n < 1 {
				t.Errorf("%s, connection %d: no PDU", name, i)
			}
		}
	}
	if n := len(Fetch(0, MaxPMIDs, 1)); n != maxPDU {
		t.Errorf("a fetch of MaxPMIDs has %d bytes", n)
	}
	if n := len(metrics.Repeats()(0).Once); n < 45_000 || n > 48_000 {
		t.Errorf("the request with repeats has %d bytes", n)
	}
	if n := len(InDoms(0, MaxInDoms, 0)); n > maxPDU || n < maxPDU-32 {
		t.Errorf("a profile of MaxInDoms has %d bytes", n)
	}
}

// echo answers each FETCH on conn with an ERROR. It sends the type of each PDU that
// arrives to got.
func echo(t *testing.T, conn net.Conn, got chan<- pdu.Type) {
	defer conn.Close()
	conn.Write(Encode(&pdu.Error{Greeting: true, Info: pdu.GreetingInfo(0)}))
	r := pdu.NewReader(conn, maxPDU)
	for {
		b, err := r.Next()
		if err != nil {
			return
		}
		_, typ, _ := pdu.Header(b)
		select {
		case got <- typ:
		case <-t.Context().Done():
			return
		}
		if typ == pdu.TypeFetch {
			conn.Write(Encode(&pdu.Error{Code: pdu.ErrnoPMID}))
		}
	}
}

// TestRun checks the order of what a client sends, that it waits for replies, and that
// it connects again when the connection ends.
func TestRun(t *testing.T) {
	// A connection has a channel of its own: what the first one sends before it is closed
	// is not taken for what the second one sends.
	type peer struct {
		conn net.Conn
		got  chan pdu.Type
	}
	peers := make(chan peer)
	ctx, cancel := context.WithCancel(t.Context())
	r := Start(ctx, Attack{Conns: 1, Retry: time.Nanosecond, Script: metrics.AllMetrics(), Dial: func(ctx context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		p := peer{theirs, make(chan pdu.Type)}
		go echo(t, p.conn, p.got)
		select {
		case peers <- p:
			return ours, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}})
	for range 2 {
		p := <-peers
		for i, want := range []pdu.Type{pdu.TypeCreds, pdu.TypeProfile, pdu.TypeFetch, pdu.TypeFetch} {
			if typ := <-p.got; typ != want {
				t.Fatalf("PDU %d is %v, want %v", i, typ, want)
			}
		}
		<-r.Ready()
		if c := r.Counts(); c.Replies < 1 || c.Requests < 1 {
			t.Errorf("%+v after a reply", c)
		}
		p.conn.Close()
	}
	cancel()
	<-r.Done()
	if c := r.Counts(); c.Ended < 1 || c.Refused != 0 {
		t.Errorf("%+v after two connections", c)
	}
}
