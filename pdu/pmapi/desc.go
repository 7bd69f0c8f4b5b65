package pmapi

import (
	"context"
	"fmt"

	"github.com/gopcp/pmcd/pdu"
)

// maxDescs is how many descriptors one request asks for.
const maxDescs = 4096

// Desc returns the descriptor of a metric (pmLookupDesc(3)). It is cached until pmcd reports
// with a fetch that agents or names have changed.
func (c *Client) Desc(ctx context.Context, id pdu.PMID) (pdu.Desc, error) {
	if d, ok := c.cache.desc(id); ok {
		return d, nil
	}
	var d pdu.Desc
	err := c.do(ctx, func(n *conn) error {
		if err := n.call(&pdu.DescReq{PMID: id}, &d); err != nil {
			return err
		}
		c.cache.add(map[pdu.PMID]pdu.Desc{id: d})
		return nil
	})
	if err != nil {
		return pdu.Desc{PMID: pdu.NoPMID}, fmt.Errorf("descriptor of %v: %w", id, err)
	}
	return d, nil
}

// Descs returns the descriptors of metrics, in order, with as few requests as pmcd can do
// with (pmLookupDescs(3)). If some are not known, the error is an [*ItemsError], and the PMID
// of their descriptors is [pdu.NoPMID]. For a single metric the error is that error itself. If
// the request as a whole fails, the descriptors are nil.
func (c *Client) Descs(ctx context.Context, ids ...pdu.PMID) ([]pdu.Desc, error) {
	descs := make([]pdu.Desc, len(ids))
	errs := make([]error, len(ids))
	var missing []int // indexes
	for i, id := range ids {
		var ok bool
		if descs[i], ok = c.cache.desc(id); !ok {
			descs[i].PMID = pdu.NoPMID
			missing = append(missing, i)
		}
	}
	for len(missing) > 1 && c.Features()&pdu.FeatureDescs != 0 {
		some := missing[:min(len(missing), maxDescs)]
		missing = missing[len(some):]
		failed, err := c.descs(ctx, ids, some, descs)
		if err != nil {
			return nil, err
		}
		for n, i := range failed {
			if n < maxReasons {
				if descs[i], err = c.oneDesc(ctx, ids[i], &errs[i]); err != nil {
					return nil, err
				}
			} else {
				errs[i] = fmt.Errorf("descriptor of %v: %w", ids[i], pdu.ErrnoPMID)
			}
		}
	}
	for _, i := range missing {
		var err error
		if descs[i], err = c.oneDesc(ctx, ids[i], &errs[i]); err != nil {
			return nil, err
		}
	}
	return descs, itemsError(errs)
}

// descs asks for the descriptors of ids with some indexes in one request. It returns the
// indexes of those that failed.
func (c *Client) descs(ctx context.Context, ids []pdu.PMID, some []int, descs []pdu.Desc) (failed []int, err error) {
	req := &pdu.DescIDs{PMIDs: make([]pdu.PMID, len(some))}
	for n, i := range some {
		req.PMIDs[n] = ids[i]
	}
	var reply pdu.Descs
	err = c.do(ctx, func(n *conn) error {
		if err := n.call(req, &reply); err != nil {
			return err
		}
		if err := checkCount("descriptors", len(reply.Descs), len(some)); err != nil {
			return n.fail(err)
		}
		good := make(map[pdu.PMID]pdu.Desc)
		for _, d := range reply.Descs {
			if d.PMID != pdu.NoPMID {
				good[d.PMID] = d
			}
		}
		c.cache.add(good)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("descriptors: %w", err)
	}
	for n, i := range some {
		if descs[i] = reply.Descs[n]; descs[i].PMID == pdu.NoPMID {
			failed = append(failed, i)
		}
	}
	return failed, nil
}

// oneDesc is Desc with an answer of pmcd in answer.
func (c *Client) oneDesc(ctx context.Context, id pdu.PMID, answer *error) (pdu.Desc, error) {
	d, err := c.Desc(ctx, id)
	if err != nil && isAnswer(err) && !isConnError(err) {
		*answer, err = err, nil
	}
	return d, err
}
