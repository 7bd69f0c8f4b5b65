package pmapi

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// Faults of a pmcd in the middle of a request, and the error of the client. After each, the
// client has no connection.
func TestFaults(t *testing.T) {
	cut := func(n int) func(*session) {
		return func(s *session) { s.nc.Write(fixedReply[:n]); s.nc.Close() }
	}
	for _, tt := range []struct {
		name  string
		fault func(*session)
		want  error
	}{
		{"closed", func(s *session) { s.nc.Close() }, io.EOF},
		{"half a header", cut(5), io.ErrUnexpectedEOF},
		{"half a PDU", cut(60), io.ErrUnexpectedEOF},
		{"garbage", func(s *session) { s.nc.Write(slices.Repeat([]byte{0x5a}, 100)) }, pdu.ErrTooLong},
		{"a long PDU", func(s *session) { s.nc.Write([]byte{0x7f, 0, 0, 0, 0, 0, 0x70, 0x15, 0, 0, 0, 0}) }, pdu.ErrTooLong},
		{"a bad PDU", func(s *session) {
			b := slices.Clone(fixedReply)
			b[15]++ // one value set more than there are
			s.nc.Write(b)
		}, pdu.ErrCount},
		{"another reply", func(s *session) { s.send(&pdu.Text{Text: "x"}) }, ErrReply},
		{"success without values", func(s *session) { s.send(&pdu.Error{}) }, ErrReply},
		{"a greeting", func(s *session) { s.greet() }, ErrReply},
		{"too few values", func(s *session) { s.send(&pdu.HighResResult{Sets: make([]pdu.ValueSet, 2)}) }, ErrReply},
		{"silence", func(*session) {}, context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := startFake(t)
			c := f.dial(Options{})
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			f.setHandle(func(s *session, m pdu.Message) bool {
				if m.Type() != pdu.TypeHighResFetch {
					return false
				}
				if tt.fault(s); tt.want == context.Canceled {
					cancel()
				}
				return true
			})
			var r Result
			err := c.Fetch(ctx, []pdu.PMID{countID, loadID, nameID}, &r)
			var lost *ConnError
			if !errors.Is(err, tt.want) || !errors.As(err, &lost) {
				t.Errorf("%v, want %v", err, tt.want)
			}
			if _, again := c.Lookup(testContext(t), "fake.count"); !errors.Is(again, tt.want) {
				t.Errorf("next request: %v, want %v", again, tt.want)
			}
		})
	}
}

// Values of a metric that was not asked for are no values of the one that was.
func TestOtherMetric(t *testing.T) {
	f := startFake(t)
	c := f.dial(Options{})
	f.setHandle(func(s *session, m pdu.Message) bool {
		if m.Type() == pdu.TypeHighResFetch {
			s.send(&pdu.HighResResult{Sets: []pdu.ValueSet{NewValueSet(nameID, pdu.NoInst, ValueOf("x"))}})
		}
		return m.Type() == pdu.TypeHighResFetch
	})
	var r Result
	if err := c.Fetch(testContext(t), []pdu.PMID{countID}, &r); err != nil || r.Sets[0].PMID != countID || r.Sets[0].Err != pdu.ErrnoIPC || len(r.Sets[0].Values) > 0 {
		t.Errorf("%+v, %v", r.Sets, err)
	}
}

// C pmcd has no name space after a reload of one that it cannot read. It has a client, and
// values for it.
func TestNoNameSpace(t *testing.T) {
	f := startFake(t)
	refuse := false
	f.setHandle(func(s *session, m pdu.Message) bool {
		switch {
		case m.Type() == pdu.TypePMNSNames:
			s.send(&pdu.Error{Code: pdu.ErrnoNoPMNS})
		case m.Type() == pdu.TypeHighResFetch && refuse:
			s.send(&pdu.Error{Code: pdu.ErrnoTooBig})
		default:
			return false
		}
		return true
	})
	c := f.dial(Options{})
	if ids, err := c.Lookup(testContext(t), "fake.load"); !errors.Is(err, pdu.ErrnoNoPMNS) {
		t.Errorf("Lookup: %v, %v", ids, err)
	}
	var r Result
	if err := c.Fetch(testContext(t), []pdu.PMID{countID}, &r); err != nil || len(r.Sets[0].Values) != 1 {
		t.Errorf("%+v, %v", r.Sets, err)
	}
	refuse = true
	c.SetProfile(nil) // the error could be that of the profile
	if err := c.Fetch(testContext(t), []pdu.PMID{countID}, &r); !errors.Is(err, pdu.ErrnoTooBig) {
		t.Error(err)
	}
	refuse = false
	if err := c.Fetch(testContext(t), []pdu.PMID{countID}, &r); err != nil {
		t.Error(err)
	}
}

// A profile that pmcd refuses has an ERROR of its own, before the reply to the fetch. The
// next reply belongs to the next request all the same.
func TestProfileRefused(t *testing.T) {
	for name, fetchToo := range map[string]bool{"profile": false, "profile and fetch": true} {
		t.Run(name, func(t *testing.T) {
			f := startFake(t)
			c := f.dial(Options{})
			f.setHandle(func(s *session, m pdu.Message) bool {
				switch {
				case m.Type() == pdu.TypeProfile:
					s.send(&pdu.Error{Code: pdu.ErrnoPermission})
					return true
				case fetchToo: // the probe, too
					s.send(&pdu.Error{Code: pdu.ErrnoPermission})
					return true
				}
				return false
			})
			var r Result
			for range 3 {
				if err := c.Fetch(testContext(t), []pdu.PMID{countID}, &r); !errors.Is(err, pdu.ErrnoPermission) {
					t.Fatal(err)
				}
			}
			f.setHandle(nil)
			if ids, err := c.Lookup(testContext(t), "fake.load"); err != nil || ids[0] != loadID {
				t.Errorf("%v, %v", ids, err)
			}
			if err := c.Fetch(testContext(t), []pdu.PMID{countID}, &r); err != nil {
				t.Error(err)
			}
		})
	}
	f := startFake(t)
	c := f.dial(Options{})
	f.setHandle(func(s *session, m pdu.Message) bool {
		if m.Type() == pdu.TypeHighResFetch {
			s.send(&pdu.Error{Code: pdu.ErrnoTooBig})
		}
		return m.Type() == pdu.TypeHighResFetch
	})
	var r Result
	for range 2 { // with a profile and without
		if err := c.Fetch(testContext(t), []pdu.PMID{countID}, &r); !errors.Is(err, pdu.ErrnoTooBig) {
			t.Fatal(err)
		}
	}
	if ids, err := c.Lookup(testContext(t), "fake.load"); err != nil || ids[0] != loadID {
		t.Errorf("%v, %v", ids, err)
	}
}

// A request can be cancelled while it waits for its turn, which has no consequence, and while
// it waits for a reply, which costs the connection.
func TestCancel(t *testing.T) {
	f := startFake(t)
	c := f.dial(Options{})
	asked, answer := make(chan struct{}), make(chan struct{})
	f.setHandle(func(s *session, m pdu.Message) bool {
		if m.Type() == pdu.TypeTextReq {
			asked <- struct{}{}
			<-answer
		}
		return false
	})
	defer close(answer)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := c.Text(testContext(t), countID, TextOneLine); err != nil {
			t.Errorf("the request before: %v", err)
		}
	})
	<-asked
	ctx, cancel := context.WithCancelCause(testContext(t))
	why := errors.New("a reason")
	wg.Go(func() {
		_, err := c.Lookup(ctx, "fake.count")
		var lost *ConnError
		if !errors.Is(err, why) || errors.As(err, &lost) {
			t.Errorf("cancelled while it waits for its turn: %v", err)
		}
	})
	cancel(why)
	answer <- struct{}{}
	wg.Wait()
	if _, err := c.Lookup(ctx, "fake.count"); !errors.Is(err, why) {
		t.Errorf("cancelled before: %v", err)
	}
	if _, err := c.Lookup(testContext(t), "fake.count"); err != nil {
		t.Fatal(err)
	}

	ctx, cancel = context.WithCancelCause(testContext(t))
	wg.Go(func() {
		_, err := c.Text(ctx, countID, TextOneLine)
		var lost *ConnError
		if !errors.Is(err, why) || !errors.As(err, &lost) {
			t.Errorf("cancelled while it waits for the reply: %v", err)
		}
	})
	<-asked
	cancel(why)
	wg.Wait()
}

// The end of a context that comes together with a reply does not interrupt a later request.
func TestCancelRace(t *testing.T) {
	c := startFake(t).dial(Options{})
	for range 300 {
		ctx, cancel := context.WithCancel(testContext(t))
		done := make(chan struct{})
		go func() { cancel(); close(done) }()
		c.Lookup(ctx, "fake.count")
		<-done
		if c.conn == nil { // cancelled too early
			c = startFake(t).dial(Options{})
		}
		if _, err := c.Lookup(testContext(t), "fake.count"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTimeout(t *testing.T) {
	f := startFake(t)
	f.setHandle(func(s *session, m pdu.Message) bool { return m.Type() == pdu.TypeTextReq })
	c := f.dial(Options{})
	c.opts.Timeout = 20 * time.Millisecond
	if _, err := c.Text(testContext(t), countID, TextOneLine); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no reply: %v", err)
	}
	f = startFake(t)
	f.accept = func(s *session) bool { return s.recv() != nil } // no greeting
	if _, err := Dial(testContext(t), f.host(), Options{Timeout: 20 * time.Millisecond}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no greeting: %v", err)
	}
}

func TestClose(t *testing.T) {
	f := startFake(t)
	asked := make(chan struct{})
	f.setHandle(func(s *session, m pdu.Message) bool {
		if m.Type() == pdu.TypeTextReq {
			close(asked)
		}
		return m.Type() == pdu.TypeTextReq
	})
	c := f.dial(Options{Reconnect: &Backoff{}})
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := c.Text(testContext(t), countID, TextOneLine); !errors.Is(err, ErrClosed) {
			t.Errorf("request during Close: %v", err)
		}
	})
	<-asked
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if _, err := c.Lookup(testContext(t), "x"); !errors.Is(err, ErrClosed) {
		t.Errorf("request after Close: %v", err)
	}
}

// Many goroutines get the replies to their own requests.
func TestConcurrent(t *testing.T) {
	c := startFake(t).dial(Options{})
	ctx := testContext(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			var r Result
			for range 50 {
				d := fakeDescs[i%len(fakeDescs)]
				if ids, err := c.Lookup(ctx, fakeNames[i%len(fakeNames)]); err != nil || ids[0] != d.PMID {
					t.Errorf("%v, %v", ids, err)
				}
				if got, err := c.Desc(ctx, d.PMID); err != nil || got != d {
					t.Errorf("%v, %v", got, err)
				}
				if err := c.Fetch(ctx, []pdu.PMID{d.PMID}, &r); err != nil || r.Sets[0].PMID != d.PMID {
					t.Errorf("%v, %v", r.Sets, err)
				}
			}
		})
	}
	wg.Wait()
}
