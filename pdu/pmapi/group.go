package pmapi

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A Group fetches the values of several metrics with one request, and writes them to
// variables (pmFetchGroup(3)). [Bind] and [BindAll] add variables to it. For metrics with
// instances there is one more request for each instance domain: see [Group.Fetch].
//
// Counters become rates: the change since the fetch before, per second, in the units of
// [RateUnits]. So the first fetch has no values of counters, nor has one after an agent was
// started or has ended, after a new connection, or if a counter is less than before. An instance
// that has another name than before has no rate either.
//
// A Group can be used by one goroutine at a time. Several Groups can share a Client.
type Group struct {
	c     *Client
	mu    sync.Mutex // so that a mistake in the use of g does not mix two results
	items []*Item

	ids    []pdu.PMID
	result Result
	before time.Time // of the result before, or zero
	seen   uint64    // the position in Client.changes

	domains map[pdu.InDom]*domain
	fetches int // so far
}

// NewGroup returns a Group without variables.
func (c *Client) NewGroup() *Group {
	return &Group{c: c, seen: c.changes.end.Load(), domains: make(map[pdu.InDom]*domain)}
}

// Remove makes later fetches of g leave out items that [Bind] or [BindAll] returned. Their
// variables stay as they are.
func (g *Group) Remove(items ...*Item) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.items = slices.DeleteFunc(g.items, func(i *Item) bool { return slices.Contains(items, i) })
}

// ItemOptions are what a [Bind] says about a metric. The zero ItemOptions are the default.
type ItemOptions struct {
	// Instance is the name of the instance whose value is wanted. Without it, the metric
	// must have no instances. BindAll does not use it.
	Instance string

	// Units are those of the variable, such as pdu.Mbyte or, for the rate of a counter, megabytes
	// a second: pdu.NewUnits(1, -1, 0, pdu.SpaceMbyte, pdu.TimeSec, 0). 0 is for those of the
	// metric or of its rate. They do not matter for a variable of type string.
	Units pdu.Units

	// Raw makes a counter remain a counter. A counter is always raw for a variable of type
	// string.
	Raw bool

	// Wraps is the last argument of [Rate].
	Wraps bool
}

// An Item is a metric in a Group.
type Item struct {
	metric string
	opts   ItemOptions
	text   bool // for strings: neither rates nor units
	all    bool // of all instances

	set func(insts []instance) // writes the variable

	err  error // of the last fetch
	id   pdu.PMID
	desc pdu.Desc
	inst int32 // of opts.Instance

	before map[int32]Value // counters of the fetch before
	spare  map[int32]Value // for the next fetch, whatever is in it
	insts  []instance
}

type instance struct {
	id    int32
	value Value
	rate  float64 // value as a number: a rate, or with other units
	err   error
}

// Err returns why the last fetch had no value for the variable, or nil: an error that wraps
// a [pdu.Errno], such as pdu.ErrnoName, pdu.ErrnoAgain in the first fetch of a counter,
// pdu.ErrnoInst, or [ErrReset]. The variable then is zero. For a variable of BindAll,
// Err is that of the metric as a whole, and each instance has an error of its own: those of a
// counter have pdu.ErrnoAgain in the first fetch.
func (i *Item) Err() error { return i.err }

// Desc returns the descriptor of the metric at the last fetch. Its PMID is [pdu.NoPMID] before
// the first one, and while the metric does not exist.
func (i *Item) Desc() pdu.Desc {
	d := i.desc
	d.PMID = i.id
	return d
}

// Units returns those of the variable: the wanted ones, or those of the metric or of its rate.
// They have no meaning without a PMID.
func (i *Item) Units() pdu.Units {
	switch {
	case i.opts.Units != 0 && !i.text:
		return i.opts.Units
	case i.isRate():
		u, _ := RateUnits(i.desc.Units)
		return u
	}
	return i.desc.Units
}

// Fetch fetches all metrics of g, and writes the variables. It returns the time of the
// values by pmcd's clock.
//
// The name of an instance can change while its number stays: that of a process does when it
// executes another program, or when a new process gets its number. pmcd does not tell clients
// of that. So each Fetch asks for the names that belong to the values, with a request for each
// instance domain, or for the one instance of a domain that the variables are for.
//
// An error of Fetch means that there was no result. Then the variables are as before. That
// some metrics have no values is no error: see [Item.Err]. Fetch tries again to look up names
// that were not known, with a request of its own.
func (g *Group) Fetch(ctx context.Context) (time.Time, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.resolve(ctx); err != nil {
		return time.Time{}, err
	}
	g.ids = g.ids[:0]
	for _, i := range g.items {
		if i.id != pdu.NoPMID {
			g.ids = append(g.ids, i.id)
		}
	}
	r := &g.result
	seen := g.seen
	if len(g.ids) > 0 {
		r.seen = &g.seen
		if err := g.c.Fetch(ctx, g.ids, r); err != nil {
			return time.Time{}, err
		}
		g.forget(r.Changes, r.Reconnected)
	} else {
		*r = Result{Time: time.Now()}
	}
	n := 0
	for _, i := range g.items {
		if i.id != pdu.NoPMID {
			i.take(&r.Sets[n], r.Time.Sub(g.before))
			n++
		}
	}
	g.before = r.Time // the counters that take keeps are of this time
	if err := g.nameInstances(ctx); err != nil {
		g.seen = seen // so that the next fetch reports these changes, too
		return time.Time{}, err
	}
	for _, i := range g.items {
		i.set(i.insts)
	}
	return r.Time, nil
}

// stale makes the next fetch look up the name again.
func (i *Item) stale() { i.desc.PMID = pdu.NoPMID }

// resolve looks up what is not known or no longer.
func (g *Group) resolve(ctx context.Context) error {
	var names []string
	var items []*Item
	for _, i := range g.items {
		if i.desc.PMID == pdu.NoPMID {
			names, items = append(names, i.metric), append(items, i)
		}
	}
	if len(items) == 0 {
		return nil
	}
	ids, err := g.c.Lookup(ctx, names...)
	if ids == nil {
		return err
	}
	errs := errorsOf(err, len(items))
	known := ids[:0:0]
	for n, i := range items {
		if i.id != ids[n] {
			clear(i.before)
		}
		if i.id, i.err, i.insts = ids[n], errs[n], nil; i.id != pdu.NoPMID {
			known = append(known, i.id)
		}
	}
	if len(known) == 0 {
		return nil
	}
	descs, err := g.c.Descs(ctx, known...)
	if descs == nil {
		return err
	}
	errs = errorsOf(err, len(known))
	for _, i := range items {
		if i.id == pdu.NoPMID {
			continue
		}
		before := i.Desc()
		if i.desc, i.err = descs[0], errs[0]; i.desc != before {
			clear(i.before)
		}
		if i.err == nil {
			if err := i.resolveInstance(ctx, g.c); err != nil {
				i.stale()
				return err
			}
		}
		if i.err != nil {
			i.id = pdu.NoPMID
			i.stale()
		}
		descs, errs = descs[1:], errs[1:]
	}
	return nil
}

// errorsOf returns the errors of n items from one that itemsError returned.
func errorsOf(err error, n int) []error {
	if many, ok := err.(*ItemsError); ok {
		return many.Errs
	}
	errs := make([]error, n)
	if err != nil && n == 1 {
		errs[0] = err
	}
	return errs
}

// resolveInstance looks up the instance of i. It writes an answer of pmcd to i.err.
func (i *Item) resolveInstance(ctx context.Context, c *Client) error {
	i.inst = pdu.NoInst
	switch {
	case i.all:
		return nil
	case i.desc.InDom == pdu.NoInDom:
		if i.opts.Instance != "" {
			i.err = i.fail(pdu.ErrnoInst)
		}
		return nil
	case i.opts.Instance == "":
		i.err = i.fail(pdu.ErrnoInst)
		return nil
	}
	inst, err := c.InstanceID(ctx, i.desc.InDom, i.opts.Instance)
	if i.inst = inst; isNoAnswer(err) {
		return err
	}
	i.err = err
	return nil
}
