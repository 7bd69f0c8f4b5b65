package pmapi

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

func TestGroup(t *testing.T) {
	f := startFake(t)
	c := f.dial(Options{})
	ctx := testContext(t)
	g := c.NewGroup()
	var rate, perSec, load float64
	var raw uint64
	var rounded int64
	var name string
	var loads []Instance[float64]
	var texts []Instance[string]
	var values []Instance[Value]
	var rateValue, text Value
	counter := Bind(g, &rate, "fake.count", ItemOptions{})
	inBytes := Bind(g, &perSec, "fake.count", ItemOptions{Units: pdu.NewUnits(1, -1, 0, pdu.SpaceByte, pdu.TimeSec, 0)})
	items := []*Item{
		Bind(g, &raw, "fake.count", ItemOptions{Raw: true}),
		Bind(g, &load, "fake.load", ItemOptions{Instance: "5 minute"}),
		Bind(g, &rounded, "fake.load", ItemOptions{Instance: "5 minute"}),
		Bind(g, &name, "fake.name", ItemOptions{}),
		BindAll(g, &loads, "fake.load", ItemOptions{}),
		BindAll(g, &texts, "fake.name", ItemOptions{}),
		BindAll(g, &values, "fake.load", ItemOptions{}),
		Bind(g, &text, "fake.name", ItemOptions{}),
	}
	rateItem := Bind(g, &rateValue, "fake.count", ItemOptions{})
	if d := rateItem.Desc(); d.PMID != pdu.NoPMID {
		t.Errorf("a descriptor before the first fetch: %+v", d)
	}
	sec := int64(1000)
	f.setHandle(func(s *session, m pdu.Message) bool {
		if m, ok := m.(*pdu.HighResFetch); ok { // two seconds a fetch
			sec += 2
			s.send(&pdu.HighResResult{Sec: sec, Sets: s.valuesOf(m.PMIDs)})
			return true
		}
		return false
	})
	if at, err := g.Fetch(ctx); err != nil || at.Unix() != 1002 {
		t.Fatal(at, err)
	}
	if !errors.Is(counter.Err(), pdu.ErrnoAgain) || !errors.Is(inBytes.Err(), pdu.ErrnoAgain) {
		t.Errorf("a rate after one fetch: %v, %v", counter.Err(), inBytes.Err())
	}
	f.seen()
	first := raw
	if _, err := g.Fetch(ctx); err != nil {
		t.Fatal(err)
	}
	if got, want := f.seen(), []pdu.Type{pdu.TypeHighResFetch, pdu.TypeInstanceReq}; !slices.Equal(got, want) {
		t.Errorf("requests of a fetch: %v, want %v", got, want)
	}
	for _, i := range append(items, counter, inBytes) {
		if i.Err() != nil {
			t.Errorf("%s: %v", i.metric, i.Err())
		}
	}
	if rate != 5 || perSec != 5*1024 || raw != first+10 || load != 1.25 || rounded != 1 || name != "a name" {
		t.Errorf("%v %v %v %v %v %q", rate, perSec, raw, load, rounded, name)
	}
	if want := []Instance[float64]{{1, "1 minute", 0.25, nil}, {5, "5 minute", 1.25, nil}}; !reflect.DeepEqual(loads, want) {
		t.Errorf("%+v", loads)
	}
	if want := []Instance[string]{{pdu.NoInst, "", "a name", nil}}; !reflect.DeepEqual(texts, want) {
		t.Errorf("%+v", texts)
	}

	if want := []Instance[Value]{{1, "1 minute", ValueOf(float32(0.25)), nil}, {5, "5 minute", ValueOf(float32(1.25)), nil}}; !reflect.DeepEqual(values, want) {
		t.Errorf("%+v", values)
	}
	if rateValue.Type() != pdu.MetricDouble || rateValue.String() != "5" || text.String() != `"a name"` {
		t.Errorf("%v %v", rateValue, text)
	}
	if d := rateItem.Desc(); d != fakeDescs[0] {
		t.Errorf("descriptor %+v", d)
	}
	for i, want := range map[*Item]string{rateItem: "Kbyte / sec", inBytes: "byte / sec", items[0]: "Kbyte", items[3]: "none"} {
		if got := i.Units().String(); got != want {
			t.Errorf("%s in %s, not %s", i.metric, got, want)
		}
	}

	// An agent was restarted: its counters may have begun anew.
	f.setHandle(func(s *session, m pdu.Message) bool {
		if m.Type() == pdu.TypeHighResFetch {
			s.send(&pdu.Error{Code: pdu.StateRestartAgent})
		}
		return false
	})
	if _, err := g.Fetch(ctx); err != nil || !errors.Is(counter.Err(), pdu.ErrnoAgain) || rate != 0 {
		t.Errorf("after a restart: %v, %v, %v", rate, counter.Err(), err)
	}
	f.setHandle(nil)

	// The counter has begun anew.
	f.mu.Lock()
	f.values = 0
	f.mu.Unlock()
	sec = 2000
	f.setHandle(func(s *session, m pdu.Message) bool {
		if m, ok := m.(*pdu.HighResFetch); ok {
			sec++
			s.send(&pdu.HighResResult{Sec: sec, Sets: s.valuesOf(m.PMIDs)})
			return true
		}
		return false
	})
	if _, err := g.Fetch(ctx); err != nil || !errors.Is(counter.Err(), ErrReset) {
		t.Errorf("after a reset: %v, %v", counter.Err(), err)
	}
	if _, err := g.Fetch(ctx); err != nil || counter.Err() != nil || rate != 10 {
		t.Errorf("after that: %v, %v, %v", rate, counter.Err(), err)
	}
}

// An endedContext ends when a test says so, which no request notices that is being made.
type endedContext struct {
	context.Context
	ended atomic.Bool
}

func (c *endedContext) Done() <-chan struct{} { return nil }

func (c *endedContext) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return nil
}

// A fetch that fails after it has the values, because the names of instances cannot be looked
// up, does not make the next one wrong.
func TestGroupNoNames(t *testing.T) {
	for _, tt := range []struct {
		name        string
		interrupted bool // the context ends before the request for names; otherwise pmcd refuses it
		before      bool // after a fetch with all names
	}{
		{"interrupted", true, true},
		{"interrupted at first", true, false},
		{"refused", false, true},
		{"refused at first", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := startFake(t)
			g := f.dial(Options{}).NewGroup()
			var rate float64
			var loads []Instance[float64]
			counter := Bind(g, &rate, "fake.count", ItemOptions{})
			BindAll(g, &loads, "fake.load", ItemOptions{})
			sec := int64(1000)
			var changes pdu.Errno
			failing := false
			ctx := &endedContext{Context: testContext(t)}
			f.setHandle(func(s *session, m pdu.Message) bool {
				switch m := m.(type) {
				case *pdu.HighResFetch:
					if changes != 0 {
						s.send(&pdu.Error{Code: changes})
						changes = 0
					}
					sec += 10
					ctx.ended.Store(failing && tt.interrupted)
					s.send(&pdu.HighResResult{Sec: sec, Sets: s.valuesOf(m.PMIDs)})
				case *pdu.InstanceReq:
					if !failing {
						return false
					}
					s.send(&pdu.Error{Code: pdu.ErrnoAgain})
				default:
					return false
				}
				return true
			})
			named := func() bool { return len(loads) == 2 && loads[0].Name == "1 minute" && loads[1].Name == "5 minute" }
			if tt.before {
				if _, err := g.Fetch(ctx); err != nil || !named() {
					t.Fatal(loads, err)
				}
				changes = pdu.StateNamesChange // so that the names are looked up again
			}
			failing = true
			_, err := g.Fetch(ctx)
			switch {
			case tt.interrupted:
				if !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
			case err != nil || len(loads) != 2 || loads[0].Name != "":
				t.Errorf("%+v, %v", loads, err)
			}
			failing = false
			ctx.ended.Store(false)
			if _, err := g.Fetch(ctx); err != nil || !named() {
				t.Errorf("instances %+v, %v", loads, err)
			}
			if changes, _ := g.Changes(); tt.interrupted && tt.before && changes != pdu.StateNamesChange {
				t.Errorf("changes %#x: those of the fetch that failed are lost", changes)
			}
			if counter.Err() != nil || rate != 1 {
				t.Errorf("rate %v, %v; want 1 a second", rate, counter.Err())
			}
		})
	}
}

// An instance that was not looked up, because the context of the fetch ended, is looked up by
// the next one.
func TestGroupNoInstance(t *testing.T) {
	f := startFake(t)
	g := f.dial(Options{}).NewGroup()
	var load float64
	item := Bind(g, &load, "fake.load", ItemOptions{Instance: "5 minute"})
	ctx := &endedContext{Context: testContext(t)}
	f.setHandle(func(s *session, m pdu.Message) bool {
		ctx.ended.Store(m.Type() == pdu.TypeDescReq)
		return false
	})
	if _, err := g.Fetch(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	f.setHandle(nil)
	ctx.ended.Store(false)
	if _, err := g.Fetch(ctx); err != nil || item.Err() != nil || load != 1.25 {
		t.Errorf("%v, %v, %v", load, item.Err(), err)
	}
}

// A counter whose descriptor has changed begins anew.
func TestGroupOtherDesc(t *testing.T) {
	f := startFake(t)
	g := f.dial(Options{}).NewGroup()
	var rate float64
	item := Bind(g, &rate, "fake.count", ItemOptions{})
	desc := fakeDesc(countID)
	sec := int64(1000)
	f.setHandle(func(s *session, m pdu.Message) bool {
		switch m := m.(type) {
		case *pdu.DescReq:
			s.send(&desc)
		case *pdu.HighResFetch:
			sec++
			s.send(&pdu.Error{Code: pdu.StateNamesChange}, &pdu.HighResResult{Sec: sec, Sets: s.valuesOf(m.PMIDs)})
		default:
			return false
		}
		return true
	})
	for _, tt := range []struct {
		sem   pdu.Sem
		units pdu.Units
		again bool
	}{
		{pdu.SemCounter, pdu.Kbyte, true},
		{pdu.SemCounter, pdu.Kbyte, false},
		{pdu.SemCounter, pdu.Mbyte, true}, // the value before was in Kbyte
		{pdu.SemInstant, pdu.Mbyte, false},
		{pdu.SemCounter, pdu.Mbyte, true}, // the counter before is older than the result before
		{pdu.SemCounter, pdu.Mbyte, false},
	} {
		desc.Sem, desc.Units = tt.sem, tt.units
		if _, err := g.Fetch(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if got := errors.Is(item.Err(), pdu.ErrnoAgain); got != tt.again || !got && item.Err() != nil {
			t.Errorf("%v in %v: rate %v, %v", tt.sem, tt.units, rate, item.Err())
		}
	}
}

// Names that are not known are looked up again.
func TestGroupLater(t *testing.T) {
	f := startFake(t)
	c := f.dial(Options{})
	ctx := testContext(t)
	g := c.NewGroup()
	var name string
	item := Bind(g, &name, "fake.name", ItemOptions{})
	f.setHandle(func(s *session, m pdu.Message) bool {
		if m, ok := m.(*pdu.PMNSNames); ok && len(m.Names) == 1 {
			s.send(&pdu.Error{Code: pdu.ErrnoName})
			return true
		}
		return false
	})
	if _, err := g.Fetch(ctx); err != nil || !errors.Is(item.Err(), pdu.ErrnoName) {
		t.Errorf("%v, %v", item.Err(), err)
	}
	f.setHandle(nil)
	if _, err := g.Fetch(ctx); err != nil || item.Err() != nil || name != "a name" {
		t.Errorf("%q, %v, %v", name, item.Err(), err)
	}
	f.closeConns()
	if _, err := g.Fetch(ctx); err == nil || name != "a name" {
		t.Errorf("without a connection: %q, %v", name, err)
	}
}

func TestGroupErrors(t *testing.T) {
	g := startFake(t).dial(Options{}).NewGroup()
	x := int64(1)
	wants := map[*Item]error{
		Bind(g, &x, "no.such", ItemOptions{}):                             pdu.ErrnoName,
		Bind(g, &x, "fake.load", ItemOptions{}):                           pdu.ErrnoInst,
		Bind(g, &x, "fake.load", ItemOptions{Instance: "9"}):              pdu.ErrnoInDom,
		Bind(g, &x, "fake.count", ItemOptions{Instance: "9"}):             pdu.ErrnoInst,
		Bind(g, &x, "fake.name", ItemOptions{}):                           pdu.ErrnoConv,
		Bind(g, &x, "fake.count", ItemOptions{}):                          pdu.ErrnoAgain,
		Bind(g, &x, "fake.count", ItemOptions{Units: pdu.Sec, Raw: true}): pdu.ErrnoConv,
	}
	if _, err := g.Fetch(testContext(t)); err != nil || x != 0 {
		t.Fatal(x, err)
	}
	for item, want := range wants {
		if !errors.Is(item.Err(), want) {
			t.Errorf("%s%+v: %v, want %v", item.metric, item.opts, item.Err(), want)
		}
	}
}

// A fetch of metrics without instances does not allocate.
func TestGroupAllocs(t *testing.T) {
	c := startFake(t).dial(Options{})
	g := c.NewGroup()
	var rate float64
	var count uint64
	var rates []Instance[float64]
	var values []Instance[Value]
	items := []*Item{
		Bind(g, &rate, "fake.count", ItemOptions{}),
		Bind(g, &count, "fake.count", ItemOptions{Raw: true}),
		BindAll(g, &rates, "fake.count", ItemOptions{}),
		BindAll(g, &values, "fake.count", ItemOptions{}),
	}
	if _, err := g.Fetch(testContext(t)); err != nil {
		t.Fatal(err)
	}
	const runs = 100
	conn := new(replay)
	c.conn.nc, c.conn.r = conn, pdu.NewReader(conn, 0)
	var replies [][]byte
	for n := range int64(runs + 1) {
		sets := []pdu.ValueSet{NewValueSet(countID, pdu.NoInst, ValueOf(uint32(10*n))), {}, {}, {}}
		sets[1], sets[2], sets[3] = sets[0], sets[0], sets[0]
		b, err := pdu.Append(nil, 0, &pdu.HighResResult{Sec: 2000 + n, Sets: sets})
		if err != nil {
			t.Fatal(err)
		}
		replies = append(replies, b)
	}
	n := testing.AllocsPerRun(runs, func() {
		conn.reply, replies = replies[0], replies[1:]
		if _, err := g.Fetch(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
	for _, i := range items {
		if i.Err() != nil {
			t.Error(i.Err())
		}
	}
	if n > 0 || rate != 10 || count != 10*runs || len(rates) != 1 || len(values) != 1 {
		t.Errorf("%v allocations, %v, %v, %v, %v", n, rate, count, rates, values)
	}
}

// Each Group of a client, and the client's own fetches, are told of changes.
func TestGroupsChange(t *testing.T) {
	f := startFake(t)
	c := f.dial(Options{})
	var values [2]float64
	var groups [2]*Group
	for i := range groups {
		groups[i] = c.NewGroup()
		Bind(groups[i], &values[i], "fake.count", ItemOptions{})
		if _, err := groups[i].Fetch(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	changed := false
	f.setHandle(func(s *session, m pdu.Message) bool {
		if m.Type() == pdu.TypeHighResFetch && !changed {
			changed = true
			s.send(&pdu.Error{Code: pdu.Errno(pdu.StateNamesChange)})
		}
		return false
	})
	for _, want := range []int32{pdu.StateNamesChange, 0} {
		for i, g := range groups {
			if _, err := g.Fetch(testContext(t)); err != nil {
				t.Fatal(err)
			}
			if got, _ := g.Changes(); got != want {
				t.Errorf("group %d: changes %#x, want %#x", i, got, want)
			}
		}
		var r Result
		if err := c.Fetch(testContext(t), []pdu.PMID{countID}, &r); err != nil || r.Changes != want {
			t.Errorf("client: changes %#x, want %#x; %v", r.Changes, want, err)
		}
	}
	late := c.NewGroup()
	Bind(late, new(float64), "fake.count", ItemOptions{})
	if _, err := late.Fetch(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if got, _ := late.Changes(); got != 0 {
		t.Errorf("a new group: changes %#x", got)
	}
}

// Counters begin anew after a change of agents, but not after one of names.
func TestGroupChanges(t *testing.T) {
	f := startFake(t)
	g := f.dial(Options{}).NewGroup()
	ctx := testContext(t)
	var rate, removed float64
	item := Bind(g, &rate, "fake.count", ItemOptions{})
	gone := Bind(g, &removed, "fake.count", ItemOptions{})
	sec := int64(1000)
	fetch := func(changes int32) {
		t.Helper()
		f.setHandle(func(s *session, m pdu.Message) bool {
			fetch, ok := m.(*pdu.HighResFetch)
			if !ok {
				return false
			}
			if changes != 0 {
				s.send(&pdu.Error{Code: pdu.Errno(changes)})
			}
			sec++
			s.send(&pdu.HighResResult{Sec: sec, Sets: s.valuesOf(fetch.PMIDs)})
			return true
		})
		if _, err := g.Fetch(ctx); err != nil {
			t.Fatal(err)
		}
		if got, reconnected := g.Changes(); got != changes || reconnected {
			t.Errorf("changes %#x, %v, want %#x", got, reconnected, changes)
		}
	}
	fetch(0)
	for _, tt := range []struct {
		changes int32
		again   bool // the counter begins anew
		lookup  bool // with the next fetch
	}{
		{0, false, false},
		{pdu.StateLabelChange | pdu.StateHostname, false, false},
		{pdu.StateNamesChange, false, true},
		{pdu.StateNamesChange | pdu.StateRestartAgent, true, true},
		{pdu.StateAddAgent, true, true},
		{pdu.StateDropAgent, true, true},
	} {
		fetch(tt.changes)
		if got := item.Err() != nil; got != tt.again {
			t.Errorf("changes %#x: %v", tt.changes, item.Err())
		}
		f.seen()
		fetch(0)
		if got := slices.Contains(f.seen(), pdu.TypePMNSNames); got != tt.lookup {
			t.Errorf("changes %#x: looked up again: %v", tt.changes, got)
		}
		if item.Err() != nil {
			t.Errorf("after changes %#x: %v", tt.changes, item.Err())
		}
	}
	if removed == 0 {
		t.Error("no rate")
	}
	g.Remove(gone)
	removed = -1
	if fetch(0); removed != -1 || item.Err() != nil || len(g.ids) != 1 {
		t.Errorf("after Remove: %v, %v", removed, item.Err())
	}
}
