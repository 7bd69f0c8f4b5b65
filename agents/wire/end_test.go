package wire_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
)

// Peek notices the end of an idle socket, and disturbs none that is alive.
func TestPeek(t *testing.T) {
	checkGoroutines(t)
	c, there, r := by(t, wire.Options{})
	answered := func() {
		t.Helper()
		call := send(t, c, 10*time.Second, false)
		c.Peek()
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		put(t, there, &pdu.Desc{PMID: answerID})
		c.Peek()
		if _, err := c.Recv(call, nil); err != nil {
			t.Fatal(err)
		}
		c.Peek()
	}
	answered()
	put(t, there, &pdu.Error{Code: pdu.ErrnoReady}) // what is unread is no end
	answered()
	if err := c.Err(); err != nil {
		t.Fatalf("ended while its peer is there: %v", err)
	}
	there.Close()
	eventually(t, "the end is noticed", func() bool { c.Peek(); return c.Err() != nil })
	if !errors.Is(c.Err(), io.EOF) {
		t.Errorf("Err() = %v, want io.EOF", c.Err())
	}
	if p, ok := c.Pending(); ok {
		t.Errorf("an idle agent owes %+v", p)
	}
	c.Peek() // of one that has ended
}

// The request that an agent owes an answer to is known while it does, and after
// its end; a call knows how long the agent took.
func TestPending(t *testing.T) {
	checkGoroutines(t)
	c, there, _ := by(t, wire.Options{})
	owes := func(when string, want bool) {
		t.Helper()
		p, ok := c.Pending()
		if ok != want || ok && (p.Type != pdu.TypeDescReq || p.Client != 7 || time.Since(p.Since) > time.Minute) {
			t.Errorf("%s: Pending() = %+v, %v, want %v", when, p, ok, want)
		}
	}
	req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: answerID})
	if err != nil {
		t.Fatal(err)
	}
	call := &agents.Call{Req: req, Origin: agents.Origin{Client: 7}, Timeout: 10 * time.Second}
	before := time.Now()
	if err := c.Send(call); err != nil {
		t.Fatal(err)
	}
	owes("sent", true)
	put(t, there, &pdu.Desc{PMID: answerID})
	if _, err := c.Recv(call, nil); err != nil {
		t.Fatal(err)
	}
	if call.Began.Before(before) || call.Done.Before(call.Began) || call.Done.After(time.Now()) {
		t.Errorf("sent after %v, began %v, done %v", before, call.Began, call.Done)
	}
	owes("answered", false)

	call.Timeout = 20 * time.Millisecond
	if err := c.Send(call); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Recv(call, nil); err != agents.ErrLate {
		t.Fatalf("got %v, want %v", err, agents.ErrLate)
	}
	owes("late", true)
	put(t, there, &pdu.Desc{PMID: answerID})
	eventually(t, "well again", func() bool { return c.State() == wire.Ready })
	owes("well again", false)

	call.Timeout = 10 * time.Second
	if err := c.Send(call); err != nil {
		t.Fatal(err)
	}
	there.Close()
	if _, err := c.Recv(call, nil); err == nil {
		t.Error("an answer from nobody")
	}
	owes("dead", true)
}

// A process that has ended answers no more, although a child of its own has the
// pipe: nobody waits for the time of the request, or for ever.
func TestPeerGoneAndThePipeIsOpen(t *testing.T) {
	gone := errors.New("exit 3")
	for _, tt := range []struct {
		name    string
		prepare func(t *testing.T, c *wire.Client, there wire.Conn) // until the process ends
	}{
		{"in a request", func(t *testing.T, c *wire.Client, _ wire.Conn) {
			call := send(t, c, time.Minute, false)
			time.AfterFunc(20*time.Millisecond, func() { c.PeerGone(gone) })
			if _, err := c.Recv(call, nil); err != gone {
				t.Errorf("Recv: %v, want %v", err, gone)
			}
		}},
		{"before the answer is waited for", func(t *testing.T, c *wire.Client, _ wire.Conn) {
			call := send(t, c, time.Minute, false)
			c.PeerGone(gone)
			if _, err := c.Recv(call, nil); err != gone {
				t.Errorf("Recv: %v, want %v", err, gone)
			}
		}},
		{"late", func(t *testing.T, c *wire.Client, _ wire.Conn) {
			call := send(t, c, 20*time.Millisecond, false)
			if _, err := c.Recv(call, nil); err != agents.ErrLate {
				t.Fatalf("Recv: %v, want %v", err, agents.ErrLate)
			}
			c.PeerGone(gone)
		}},
		{"not ready", func(t *testing.T, c *wire.Client, there wire.Conn) {
			call := send(t, c, time.Minute, false)
			put(t, there, &pdu.Error{Code: pdu.ErrnoNotReady})
			if _, err := c.Recv(call, nil); err != agents.ErrNotReady {
				t.Fatalf("Recv: %v, want %v", err, agents.ErrNotReady)
			}
			c.PeerGone(gone)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkGoroutines(t)
			c, there, _ := by(t, wire.Options{})
			tt.prepare(t, c, there)
			select {
			case <-c.Done():
			case <-time.After(10 * time.Second):
				t.Fatal("still there")
			}
			if c.Err() != gone {
				t.Errorf("Err() = %v, want %v", c.Err(), gone)
			}
		})
	}
}
