package pmapi

import (
	"context"
	"fmt"
	"iter"

	"github.com/gopcp/pmcd/pdu"
)

// maxReasons is for how many names or PMIDs of one request the reason is asked for, one by
// one, if pmcd does not know them.
const maxReasons = 100

// Lookup returns the PMIDs of metrics by name (pmLookupName(3)). If some names are not those
// of metrics, their PMIDs are [pdu.NoPMID], and the error is an [*ItemsError]: it has an
// error for each name that wraps pdu.ErrnoName, pdu.ErrnoNonLeaf or another pdu.Errno. For a
// single name, the error is that error itself. If the request as a whole fails, the PMIDs are
// nil.
func (c *Client) Lookup(ctx context.Context, names ...string) ([]pdu.PMID, error) {
	ids := make([]pdu.PMID, 0, len(names))
	errs := make([]error, len(names))
	for rest := names; len(rest) > 0; {
		n := namesThatFit(rest)
		got, err := c.lookup(ctx, rest[:n], errs[len(ids):][:n])
		if err != nil {
			return nil, err
		}
		ids = append(ids, got...)
		rest = rest[n:]
	}
	return ids, itemsError(errs)
}

// namesThatFit returns how many of names fit into a request. It is at least 1.
func namesThatFit(names []string) int {
	size := 64
	for i, name := range names {
		if size += len(name) + 8; size > maxRequest && i > 0 {
			return i
		}
	}
	return len(names)
}

// lookup looks up names that fit into one request, and writes errors to errs.
func (c *Client) lookup(ctx context.Context, names []string, errs []error) ([]pdu.PMID, error) {
	var reply pdu.PMNSIDs
	err := c.checked(ctx, &pdu.PMNSNames{Names: names}, &reply, func() error {
		return checkCount("PMIDs", len(reply.PMIDs), len(names))
	})
	if isErrno(err) && len(names) == 1 {
		errs[0] = fmt.Errorf("%q: %w", names[0], err)
		return []pdu.PMID{pdu.NoPMID}, nil
	}
	if err != nil {
		return nil, err
	}
	asked := 0
	for i, id := range reply.PMIDs {
		if id != pdu.NoPMID {
			continue
		}
		// pmcd says why only for a name alone.
		errs[i] = fmt.Errorf("%q: %w", names[i], pdu.ErrnoName)
		if asked++; len(names) > 1 && asked <= maxReasons {
			one, err := c.lookup(ctx, names[i:i+1], errs[i:i+1])
			if err != nil {
				return nil, err
			}
			if reply.PMIDs[i] = one[0]; one[0] != pdu.NoPMID { // known since just now
				errs[i] = nil
			}
		}
	}
	return reply.PMIDs, nil
}

// isErrno reports whether err is an answer of pmcd, after which the connection is usable.
func isErrno(err error) bool {
	_, ok := err.(pdu.Errno)
	return ok
}

// checkCount returns an error if a reply has another number of items than the request.
func checkCount(what string, got, want int) error {
	if got == want {
		return nil
	}
	return badReply("%d %s, not %d", got, what, want)
}

// Names returns all names of a metric, the reverse of Lookup (pmNameAll(3)). There is at
// least one if there is no error.
func (c *Client) Names(ctx context.Context, id pdu.PMID) ([]string, error) {
	var reply pdu.PMNSNames
	err := c.call(ctx, &pdu.PMNSIDs{PMIDs: []pdu.PMID{id}}, &reply)
	if err == nil && reply.Err < 0 {
		err = reply.Err
	}
	if err == nil && len(reply.Names) == 0 {
		err = pdu.ErrnoPMID
	}
	if err != nil {
		return nil, fmt.Errorf("names of %v: %w", id, err)
	}
	return reply.Names, nil
}

// Children returns the last components of the names one level below name, which is "" for
// the root (pmGetChildrenStatus(3)). The name of a metric has none.
func (c *Client) Children(ctx context.Context, name string) ([]pdu.Child, error) {
	var reply pdu.PMNSNames
	err := c.checked(ctx, &pdu.PMNSChild{Subtype: 1, Name: name}, &reply, func() error {
		return checkCount("kinds of names", len(reply.Status), len(reply.Names))
	})
	if err == nil && reply.Err < 0 {
		err = reply.Err
	}
	if err != nil {
		return nil, fmt.Errorf("names below %q: %w", name, err)
	}
	children := make([]pdu.Child, len(reply.Names))
	for i, name := range reply.Names {
		children[i] = pdu.Child{Name: name, Leaf: reply.Status[i] == pdu.LeafStatus}
	}
	return children, nil
}

// Traverse returns the names of all metrics below a name, or "" for all there are, in the
// order of pmcd's name space (pmTraversePMNS(3)). The name of a metric yields itself. If the
// request fails, the iterator yields one error.
//
// Each use of the iterator makes one request, when it starts. Its body may make others.
func (c *Client) Traverse(ctx context.Context, name string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var reply pdu.PMNSNames
		err := c.call(ctx, &pdu.PMNSTraverse{Name: name}, &reply)
		if err == nil && reply.Err < 0 {
			err = reply.Err
		}
		if err != nil {
			yield("", fmt.Errorf("metrics below %q: %w", name, err))
			return
		}
		for _, name := range reply.Names {
			if !yield(name, nil) {
				return
			}
		}
	}
}
