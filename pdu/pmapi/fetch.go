package pmapi

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A Result has the values of a fetch. Its memory is used again by the next fetch with the
// same Result. Until then it can be read by any goroutine.
type Result struct {
	// Time is when pmcd put the result together, by its clock. A pmcd before PCP 5.3.1 has
	// whole microseconds.
	Time time.Time

	// Changes are what pmcd says has changed since the last call of [Client.Fetch]: bits such
	// as pdu.StateNamesChange. The client has dropped what it had cached; so should its user.
	Changes int32

	// Reconnected is whether this is the first fetch on a new connection but the first one.
	// Then everything may have changed, and counters may have begun anew.
	Reconnected bool

	// Sets has one element for each requested metric, in order. See [Decode] for the
	// values in it.
	Sets []pdu.ValueSet

	buf     []byte
	highRes pdu.HighResResult
	lowRes  pdu.Result
	seen    *uint64 // the position in Client.changes of a Group
}

// SetProfile makes later fetches return only the instances that p selects, or all if p is
// nil (pmAddProfile(3)). It keeps no reference to p, and does not use p.Context.
//
// If another goroutine fetches at the same time, its fetch may have either profile.
func (c *Client) SetProfile(p *pdu.Profile) {
	q := &pdu.Profile{}
	if p != nil {
		q.Exclude = p.Exclude
		for _, d := range p.InDoms {
			q.InDoms = append(q.InDoms, pdu.InDomProfile{InDom: d.InDom, Exclude: d.Exclude, Insts: slices.Clone(d.Insts)})
		}
	}
	c.profile.Store(q)
}

// Fetch replaces r by the present values of metrics (pmFetch(3)). It fails if ids is empty or
// has more than 16,000 elements. That a metric has no values is no error of Fetch, but in its
// value set: a negative Err says why.
//
// If r has room for the result from an earlier fetch, Fetch does not allocate, except for a
// context that can be cancelled: [Options.Timeout] limits a Fetch without that.
func (c *Client) Fetch(ctx context.Context, ids []pdu.PMID, r *Result) error {
	if len(ids) == 0 {
		return fmt.Errorf("fetch: no metrics: %w", pdu.ErrnoTooSmall)
	}
	for try := 0; ; try++ {
		n, err := c.begin(ctx)
		if err != nil {
			return err
		}
		err = c.fetch(n, ids, r)
		if err = c.end(ctx, n, err); err == nil {
			return nil
		}
		if !c.again(ctx, err, try) {
			return fmt.Errorf("fetch: %w", err)
		}
	}
}

// fetch is Fetch on a connection.
func (c *Client) fetch(n *conn, ids []pdu.PMID, r *Result) error {
	profile := c.profile.Load()
	n.w = n.w[:0]
	fresh := n.profile != profile
	if fresh {
		n.profile = nil
		if err := n.add(profile); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
	}
	highRes := n.features&pdu.FeatureHighRes != 0
	var err error
	if highRes {
		n.highResFetch.PMIDs = ids
		err = n.add(&n.highResFetch)
		n.highResFetch.PMIDs = nil
	} else {
		n.fetch.PMIDs = ids
		err = n.add(&n.fetch)
		n.fetch.PMIDs = nil
	}
	if err != nil {
		n.w = n.w[:0]
		return fmt.Errorf("%d metrics: %w", len(ids), err)
	}
	if err := n.flush(); err != nil {
		return err
	}
	b, typ, err := n.recv()
	if err != nil {
		if fresh && n.broken == nil {
			return n.refused(err)
		}
		return err
	}
	r.buf = append(r.buf[:0], b...) // value blocks are part of r
	switch {
	case highRes && typ == pdu.TypeHighResResult:
		_, err = pdu.ParseInto(r.buf, &r.highRes)
		r.Sets, r.Time = r.highRes.Sets, time.Unix(r.highRes.Sec, r.highRes.Nsec)
	case !highRes && typ == pdu.TypeResult:
		_, err = pdu.ParseInto(r.buf, &r.lowRes)
		r.Sets, r.Time = r.lowRes.Sets, time.Unix(int64(r.lowRes.Sec), int64(r.lowRes.Usec)*1000)
	default:
		err = badReply("%v to a fetch", typ)
	}
	if err == nil && len(r.Sets) != len(ids) {
		err = badReply("%d value sets for %d metrics", len(r.Sets), len(ids))
	}
	if err != nil {
		r.Sets = nil
		return n.fail(err)
	}
	for i, id := range ids {
		// C pmcd relays the values of whatever metric an agent sends.
		if vs := &r.Sets[i]; vs.PMID != id {
			vs.PMID, vs.Err, vs.Values = id, pdu.ErrnoIPC, vs.Values[:0]
		}
	}
	n.profile = profile
	c.noticed(n)
	seen := r.seen
	if seen == nil {
		seen = &c.reported
	}
	r.Changes, r.Reconnected = c.changes.next(seen)
	return nil
}

// refused returns the error of a fetch that pmcd answered with an error, after a profile that
// it did not have. It may be that of the profile, to which pmcd does not reply otherwise.
// Then the reply to the fetch is still to come. The reply to a probe comes after it.
func (n *conn) refused(answer error) error {
	if err := n.send(probe); err != nil {
		return err
	}
	// Without a permission, both and the probe are refused. Nothing else is: so if the reply
	// to the fetch is no error, that of the probe is none.
	for range 2 {
		_, typ, err := n.recv()
		if n.broken != nil {
			return err
		}
		if probed(typ, err) {
			return answer
		}
	}
	return answer
}

// Store changes values of metrics (pmStore(3)). pmcd may have stored some of them if it
// reports an error, or if the connection is lost. Make sets with [NewValueSet].
func (c *Client) Store(ctx context.Context, sets ...pdu.ValueSet) error {
	n, err := c.begin(ctx)
	if err != nil {
		return err
	}
	err = n.send(&pdu.Result{Sets: sets})
	if err == nil {
		var typ pdu.Type
		if _, typ, err = n.recv(); err == nil && typ != pdu.TypeError {
			err = n.fail(badReply("%v to a store", typ))
		}
	}
	if err = c.end(ctx, n, err); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}
