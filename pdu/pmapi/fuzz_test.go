package pmapi

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// FuzzClient feeds a client any bytes from a pmcd while it connects and makes requests. They
// fail or succeed, but nothing panics or hangs, and a client that has lost its connection
// says so.
func FuzzClient(f *testing.F) {
	encode := func(ms ...pdu.Message) (b []byte) {
		for _, m := range ms {
			var err error
			if b, err = pdu.Append(b, 0, m); err != nil {
				f.Fatal(err)
			}
		}
		return b
	}
	greeting := &pdu.Error{Greeting: true, Info: pdu.GreetingInfo(allFeatures)}
	probed := &pdu.PMNSIDs{PMIDs: []pdu.PMID{pdu.NoPMID, pdu.NoPMID}}
	ids := &pdu.PMNSIDs{Status: 2, PMIDs: []pdu.PMID{countID, loadID}}
	descs := &pdu.Descs{Descs: fakeDescs[:2]}
	set, err := pdu.NewLabelSet(pdu.NoInst, pdu.LabelContext, pdu.NamedLabel{Name: "a", Value: "1"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(nil))
	f.Add(encode(greeting))
	f.Add(encode(greeting, probed, ids, descs, &pdu.HighResResult{Sets: []pdu.ValueSet{
		NewValueSet(countID, pdu.NoInst, ValueOf(uint32(1))), NewValueSet(loadID, 1, ValueOf(float32(1)))}},
		&pdu.Labels{Ident: uint32(pdu.NoPMID), Kind: pdu.LabelContext, Sets: []pdu.LabelSet{set}},
		&pdu.Instance{InDom: fakeDom, Insts: fakeInsts}, &pdu.PMNSNames{Names: fakeNames}, &pdu.Text{Text: "x"}, &pdu.Error{}))
	f.Add(encode(greeting, probed, &pdu.Error{Code: pdu.ErrnoName}, &pdu.Error{Code: pdu.ErrnoPermission}, probed))
	f.Add(encode(greeting, &pdu.Attr{Value: []byte("SCRAM-SHA-256")}, &pdu.Attr{Value: []byte("r=x,s=eA==,i=1")}, probed))
	f.Add(encode(greeting, probed, &pdu.Error{Code: 1}, ids, &pdu.Error{Code: 24}, descs))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, attrs := range []string{"", "?container=c", "?user=u&pass=p&method=login", "?user=u&pass=p"} {
			for _, reconnect := range []*Backoff{nil, {Min: 1, Max: 1}} {
				ctx, cancel := context.WithTimeout(context.Background(), testutil.Hangs)
				c, err := Dial(ctx, "h:1"+attrs, Options{
					Reconnect: reconnect,
					DialContext: func(context.Context, string, string) (net.Conn, error) {
						return &stream{data: data}, nil
					},
				})
				if err == nil {
					use(ctx, t, c)
					c.Close()
				}
				if ctx.Err() != nil {
					t.Fatal("too slow")
				}
				cancel()
			}
		}
	})
}

// use makes one request of each kind, and checks what is left.
func use(ctx context.Context, t *testing.T, c *Client) {
	var r Result
	ids, _ := c.Lookup(ctx, "fake.count", "fake.load")
	c.Descs(ctx, countID, loadID)
	if len(ids) == 0 {
		ids = []pdu.PMID{countID, loadID}
	}
	if err := c.Fetch(ctx, ids, &r); err == nil {
		for i := range r.Sets {
			for _, v := range r.Sets[i].Values {
				for typ := pdu.MetricNoSupport; typ <= pdu.MetricHighResEvent; typ++ {
					if v, err := Decode(&r.Sets[i], v, typ); err == nil {
						_ = v.String()
						v.Int64()
						v.Uint64()
						v.Events()
					}
				}
			}
		}
	}
	c.Labels(ctx, countID)
	c.Instances(ctx, fakeDom)
	for range c.Traverse(ctx, "") {
	}
	c.Children(ctx, "")
	c.Names(ctx, countID)
	c.Text(ctx, countID, TextOneLine)
	c.Store(ctx, NewValueSet(countID, pdu.NoInst, ValueOf(uint32(1))))
	g := c.NewGroup()
	var x float64
	var all []Instance[string]
	Bind(g, &x, "fake.count", ItemOptions{})
	BindAll(g, &all, "fake.load", ItemOptions{})
	g.Fetch(ctx)
	if c.conn == nil && c.connErr == nil {
		t.Error("no connection, and no error")
	}
}

// stream is a connection from which data comes, and then the end.
type stream struct {
	nopConn
	data   []byte
	closed atomic.Bool
}

func (s *stream) Read(b []byte) (int, error) {
	if len(s.data) == 0 || s.closed.Load() {
		return 0, io.EOF
	}
	n := copy(b, s.data)
	s.data = s.data[n:]
	return n, nil
}

func (s *stream) Write(b []byte) (int, error)      { return len(b), nil }
func (s *stream) Close() error                     { s.closed.Store(true); return nil }
func (s *stream) SetReadDeadline(time.Time) error  { return nil }
func (s *stream) SetWriteDeadline(time.Time) error { return nil }
