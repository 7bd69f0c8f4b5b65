package pmapi

import (
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

func TestNames(t *testing.T) {
	f := startFake(t)
	c := f.dial(Options{})
	ctx := testContext(t)

	ids, err := c.Lookup(ctx, "fake.count", "fake.name")
	if err != nil || !slices.Equal(ids, []pdu.PMID{countID, nameID}) {
		t.Errorf("Lookup: %v, %v", ids, err)
	}
	ids, err = c.Lookup(ctx, "no.such", "fake.count", "fake")
	var items *ItemsError
	if !slices.Equal(ids, []pdu.PMID{pdu.NoPMID, countID, pdu.NoPMID}) || !errors.As(err, &items) || len(items.Errs) != 3 ||
		!errors.Is(items.Errs[0], pdu.ErrnoName) || items.Errs[1] != nil || !errors.Is(items.Errs[2], pdu.ErrnoNonLeaf) || !errors.Is(err, pdu.ErrnoNonLeaf) {
		t.Errorf("Lookup of names that do not exist: %v, %v", ids, err)
	}
	if ids, err = c.Lookup(ctx, "fake"); !slices.Equal(ids, []pdu.PMID{pdu.NoPMID}) || errors.As(err, &items) || !errors.Is(err, pdu.ErrnoNonLeaf) {
		t.Errorf("Lookup of one name: %v, %v", ids, err)
	}
	names, err := c.Names(ctx, loadID)
	if err != nil || !slices.Equal(names, []string{"fake.load"}) {
		t.Errorf("Names: %q, %v", names, err)
	}
	if _, err := c.Names(ctx, 1); !errors.Is(err, pdu.ErrnoPMID) {
		t.Errorf("Names of an unknown PMID: %v", err)
	}
	children, err := c.Children(ctx, "")
	if want := []pdu.Child{{Name: "fake"}}; err != nil || !slices.Equal(children, want) {
		t.Errorf("Children of the root: %v, %v", children, err)
	}
	children, err = c.Children(ctx, "fake")
	if want := []pdu.Child{{Name: "count", Leaf: true}, {Name: "load", Leaf: true}, {Name: "name", Leaf: true}}; err != nil || !slices.Equal(children, want) {
		t.Errorf("Children: %v, %v", children, err)
	}
	for name, want := range map[string]pdu.Errno{"x": pdu.ErrnoName, "dynamic": pdu.ErrnoAgain} {
		if _, err := c.Children(ctx, name); !errors.Is(err, want) {
			t.Errorf("Children of %s: %v", name, err)
		}
	}
	var got []string
	for name, err := range c.Traverse(ctx, "fake") {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Lookup(ctx, name); err != nil { // not blocked by the iterator
			t.Error(err)
		}
		if got = append(got, name); len(got) == 2 {
			break
		}
	}
	if !slices.Equal(got, fakeNames[:2]) {
		t.Errorf("Traverse: %q", got)
	}
	n := 0
	for name, err := range c.Traverse(ctx, "x") {
		if n++; name != "" || !errors.Is(err, pdu.ErrnoName) {
			t.Errorf("Traverse of an unknown name: %q, %v", name, err)
		}
	}
	if n != 1 {
		t.Errorf("Traverse of an unknown name yields %d times", n)
	}
}

// More names than fit into a request need several.
func TestLookupMany(t *testing.T) {
	f := startFake(t)
	c := f.dial(Options{})
	names := slices.Repeat(fakeNames, 3000)
	ids, err := c.Lookup(testContext(t), names...)
	if err != nil || len(ids) != len(names) || ids[len(ids)-1] != nameID {
		t.Errorf("%d PMIDs for %d names, %v", len(ids), len(names), err)
	}
	if n := len(f.seen()); n < 3 || n > 4 {
		t.Errorf("%d requests", n)
	}
}

func TestDescs(t *testing.T) {
	for _, features := range []pdu.Features{allFeatures, 0} {
		f := startFake(t)
		f.features = features
		c := f.dial(Options{})
		ctx := testContext(t)
		descs, err := c.Descs(ctx, countID, 1, loadID)
		var items *ItemsError
		if !errors.As(err, &items) || !errors.Is(items.Errs[1], pdu.ErrnoPMID) || items.Errs[0] != nil || items.Errs[2] != nil ||
			descs[0] != fakeDescs[0] || descs[1].PMID != pdu.NoPMID || descs[2] != fakeDescs[1] {
			t.Errorf("Descs: %+v, %v", descs, err)
		}
		f.seen()
		// These are cached.
		if descs, err := c.Descs(ctx, loadID, countID); err != nil || descs[0] != fakeDescs[1] || descs[1] != fakeDescs[0] {
			t.Errorf("Descs again: %+v, %v", descs, err)
		}
		if d, err := c.Desc(ctx, loadID); err != nil || d != fakeDescs[1] {
			t.Errorf("Desc: %+v, %v", d, err)
		}
		if n := f.seen(); len(n) != 0 {
			t.Errorf("requests for what is cached: %v", n)
		}
		if d, err := c.Desc(ctx, 1); !errors.Is(err, pdu.ErrnoPMID) || d.PMID != pdu.NoPMID {
			t.Errorf("Desc of an unknown PMID: %+v, %v", d, err)
		}
	}
}

func TestInstancesAndTexts(t *testing.T) {
	c := startFake(t).dial(Options{})
	ctx := testContext(t)
	if insts, err := c.Instances(ctx, fakeDom); err != nil || !slices.Equal(insts, fakeInsts) {
		t.Errorf("Instances: %v, %v", insts, err)
	}
	if _, err := c.Instances(ctx, 1); !errors.Is(err, pdu.ErrnoInDom) {
		t.Errorf("Instances of an unknown domain: %v", err)
	}
	if id, err := c.InstanceID(ctx, fakeDom, "5 minute"); err != nil || id != 5 {
		t.Errorf("InstanceID: %d, %v", id, err)
	}
	if _, err := c.InstanceID(ctx, fakeDom, ""); !errors.Is(err, pdu.ErrnoInst) {
		t.Errorf("InstanceID of no name: %v", err)
	}
	if name, err := c.InstanceName(ctx, fakeDom, 1); err != nil || name != "1 minute" {
		t.Errorf("InstanceName: %q, %v", name, err)
	}
	if text, err := c.Text(ctx, countID, TextOneLine); err != nil || text != "text 5 of 5.0.0" {
		t.Errorf("Text: %q, %v", text, err)
	}
	if text, err := c.Text(ctx, nameID, TextHelp); err != nil || text != "text 5 of 5.0.2" {
		t.Errorf("Text in full that is empty: %q, %v", text, err)
	}
	if text, err := c.InDomText(ctx, fakeDom, TextOneLine); err != nil || text != "text 9 of 5.0.1" {
		t.Errorf("InDomText: %q, %v", text, err)
	}
	if _, err := c.Text(ctx, countID, TextHelp); !errors.Is(err, pdu.ErrnoText) {
		t.Errorf("Text that does not exist: %v", err)
	}
}

func TestLabels(t *testing.T) {
	f := startFake(t)
	c := f.dial(Options{})
	ctx := testContext(t)
	all, err := c.Labels(ctx, loadID)
	var got []string
	for _, l := range all {
		got = append(got, LabelsJSON(l.Labels))
	}
	want := []string{
		`{"agent":"fake","hostname":"h","level":5}`,
		`{"agent":"fake","hostname":"h","level":5,"minutes":1}`,
		`{"agent":"fake","hostname":"h","level":6}`,
	}
	if err != nil || !slices.Equal(got, want) || all[0].Inst != pdu.NoInst || all[2].Inst != 5 {
		t.Errorf("Labels: %q, %v", got, err)
	}
	if all, err = c.Labels(ctx, countID); err != nil || len(all) != 1 {
		t.Errorf("Labels of a metric without instances: %v, %v", all, err)
	}
	sets, err := c.LabelsAt(ctx, LabelDomain, 5)
	if want := []InstLabels{{pdu.NoInst, []Label{{"agent", `"fake"`, LabelDomain, false}, {"level", "2", LabelDomain, true}}}}; err != nil || !reflect.DeepEqual(sets, want) {
		t.Errorf("LabelsAt: %v, %v", sets, err)
	}
	f = startFake(t)
	f.features = 0
	if _, err := f.dial(Options{}).Labels(ctx, countID); !errors.Is(err, pdu.ErrnoNoLabels) {
		t.Errorf("labels of a pmcd without: %v", err)
	}
}

func TestFetch(t *testing.T) {
	for _, features := range []pdu.Features{allFeatures, 0} {
		f := startFake(t)
		f.features = features
		c := f.dial(Options{})
		ctx := testContext(t)
		var r Result
		ids := []pdu.PMID{loadID, 1, nameID}
		if err := c.Fetch(ctx, ids, &r); err != nil {
			t.Fatal(err)
		}
		want := time.Unix(1000, 123456789)
		if features == 0 {
			want = time.Unix(1000, 500000)
		}
		if !r.Time.Equal(want) || len(r.Sets) != 3 || len(r.Sets[0].Values) != 2 || r.Sets[1].Err != pdu.ErrnoPMID {
			t.Errorf("Fetch: %+v", r)
		}
		v, err := Decode(&r.Sets[2], r.Sets[2].Values[0], pdu.MetricString)
		if text, _ := v.Text(); err != nil || text != "a name" {
			t.Errorf("value %v, %v", v, err)
		}
		if got := f.seen(); len(got) != 2 || got[0] != pdu.TypeProfile {
			t.Errorf("requests %v", got)
		}
		p := &pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: fakeDom, Exclude: true, Insts: []int32{5}}}}
		c.SetProfile(p)
		p.InDoms[0].Insts[0] = 1 // the client has a copy
		for range 2 {
			if err := c.Fetch(ctx, ids[:1], &r); err != nil || len(r.Sets[0].Values) != 1 || r.Sets[0].Values[0].Inst != 5 {
				t.Errorf("Fetch with a profile: %+v, %v", r, err)
			}
		}
		if got := f.seen(); len(got) != 3 { // the profile once
			t.Errorf("requests %v", got)
		}
		if err := c.Fetch(ctx, nil, &r); !errors.Is(err, pdu.ErrnoTooSmall) {
			t.Errorf("Fetch of nothing: %v", err)
		}
		if err := c.Fetch(ctx, make([]pdu.PMID, 20000), &r); !errors.Is(err, pdu.ErrnoTooBig) {
			t.Errorf("Fetch of too much: %v", err)
		}
		c.SetProfile(nil)
		if err := c.Fetch(ctx, ids, &r); err != nil || len(r.Sets[0].Values) != 2 {
			t.Errorf("Fetch after errors: %+v, %v", r, err)
		}
	}
}

func TestFetchAllocs(t *testing.T) {
	// The fake would allocate, too. So the client talks to a connection that plays a reply
	// back.
	c := startFake(t).dial(Options{})
	conn := &replay{reply: fixedReply}
	c.conn.nc, c.conn.r = conn, pdu.NewReader(conn, 0)
	c.conn.profile = c.profile.Load()
	ids := []pdu.PMID{countID, loadID, nameID}
	var r Result
	n := testing.AllocsPerRun(100, func() {
		if err := c.Fetch(context.Background(), ids, &r); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
	if len(r.Sets) != 3 || len(r.Sets[1].Values) != 2 {
		t.Errorf("%+v", r)
	}
}

var fixedReply = func() []byte {
	load := NewValueSet(loadID, 1, ValueOf(float32(1)))
	load.Values = append(load.Values, NewValueSet(loadID, 5, ValueOf(float32(2))).Values...)
	b, err := pdu.Append(nil, 0, &pdu.HighResResult{Sec: 1, Sets: []pdu.ValueSet{
		NewValueSet(countID, pdu.NoInst, ValueOf(uint32(7))), load, NewValueSet(nameID, pdu.NoInst, ValueOf("x")),
	}})
	if err != nil {
		panic(err)
	}
	return b
}()

func TestStore(t *testing.T) {
	c := startFake(t).dial(Options{})
	ctx := testContext(t)
	if err := c.Store(ctx, NewValueSet(countID, pdu.NoInst, ValueOf(uint32(1)))); err != nil {
		t.Error(err)
	}
	if err := c.Store(ctx, NewValueSet(loadID, 1, ValueOf(float32(1)))); !errors.Is(err, pdu.ErrnoPermission) {
		t.Errorf("Store that is not allowed: %v", err)
	}
	if err := c.Store(ctx); err != nil {
		t.Errorf("Store of nothing: %v", err)
	}
}

// A notice of a state change comes with a fetch, and drops what is cached.
func TestStateChange(t *testing.T) {
	f := startFake(t)
	c := f.dial(Options{})
	ctx := testContext(t)
	if _, err := c.Desc(ctx, countID); err != nil {
		t.Fatal(err)
	}
	var r Result
	f.setHandle(func(s *session, m pdu.Message) bool {
		if m.Type() == pdu.TypeHighResFetch {
			s.send(&pdu.Error{Code: pdu.StateNamesChange | pdu.StateAddAgent})
		}
		return false
	})
	if err := c.Fetch(ctx, []pdu.PMID{countID}, &r); err != nil || r.Changes != pdu.StateNamesChange|pdu.StateAddAgent || r.Reconnected {
		t.Errorf("Fetch: %+v, %v", r, err)
	}
	f.setHandle(nil)
	if err := c.Fetch(ctx, []pdu.PMID{countID}, &r); err != nil || r.Changes != 0 {
		t.Errorf("Fetch again: %+v, %v", r, err)
	}
	f.seen()
	if _, err := c.Desc(ctx, countID); err != nil || len(f.seen()) != 1 {
		t.Errorf("Desc is still cached, %v", err)
	}
}

// replay is a connection on which each request gets the same reply.
type replay struct {
	nopConn
	reply []byte
	left  []byte
}

func (p *replay) Write(b []byte) (int, error) {
	p.left = p.reply
	return len(b), nil
}

func (p *replay) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.left)
	p.left = p.left[n:]
	return n, nil
}

// nopConn has the methods that a conn calls besides Read and Write.
type nopConn struct{ net.Conn }

func (nopConn) SetDeadline(time.Time) error { return nil }
func (nopConn) Close() error                { return nil }
