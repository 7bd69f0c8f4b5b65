package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gopcp/pmcd/pdu"
)

// A query is a request whose reply is always the same.
type query struct{ req, reply []byte }

// learn sends a request, checks the decoded reply, and keeps it.
func learn(c *client, m pdu.Message) (query, error) {
	q := query{req: encode(m)}
	b, err := c.call(q.req)
	if err != nil {
		return q, err
	}
	q.reply = bytes.Clone(b)
	_, reply, err := pdu.Parse(q.reply)
	if err == nil && !answers(m, reply) {
		err = fmt.Errorf("wrong reply to %v: %v of %d bytes", m.Type(), reply.Type(), len(b))
	}
	return q, err
}

// answers reports whether a reply has what was asked for.
func answers(req, reply pdu.Message) bool {
	switch reply := reply.(type) {
	case *pdu.Desc:
		req, ok := req.(*pdu.DescReq)
		return ok && reply.PMID == req.PMID
	case *pdu.Descs:
		req, ok := req.(*pdu.DescIDs)
		return ok && slices.EqualFunc(reply.Descs, req.PMIDs, func(d pdu.Desc, id pdu.PMID) bool { return d.PMID == id })
	case *pdu.PMNSIDs:
		req, ok := req.(*pdu.PMNSNames)
		return ok && len(reply.PMIDs) == len(req.Names) && !slices.Contains(reply.PMIDs, pdu.NoPMID)
	case *pdu.PMNSNames:
		return len(reply.Names) > 0
	}
	return false
}

// ask sends the request and compares the reply with the first one. Only the sender
// may differ. The reply is not decoded, so that decoding is not measured.
func (q *query) ask(c *client) error {
	b, err := c.call(q.req)
	if err == nil && (!bytes.Equal(b[:8], q.reply[:8]) || !bytes.Equal(b[pdu.HeaderLen:], q.reply[pdu.HeaderLen:])) {
		err = fmt.Errorf("another reply than before, of %d bytes", len(b))
	}
	return err
}

// learnAll calls learn with requests.
func (r *run) learnAll(requests []pdu.Message) (qs []query, err error) {
	return qs, r.once(func(c *client) error {
		for _, m := range requests {
			q, err := learn(c, m)
			if err != nil {
				return err
			}
			qs = append(qs, q)
		}
		return nil
	})
}

// lookups measures requests, one after the other.
func lookups(requests func(r *run) ([]pdu.Message, error)) func(r *run) error {
	return func(r *run) error {
		ms, err := requests(r)
		if err != nil {
			return err
		}
		qs, err := r.learnAll(ms)
		if err != nil {
			return err
		}
		r.measure(load{clients: 1, open: r.dial, op: func(c *client, seq int) error { return qs[seq%len(qs)].ask(c) }})
		return nil
	}
}

// lookup measures a request.
func lookup(m pdu.Message) func(r *run) error {
	return lookups(func(*run) ([]pdu.Message, error) { return []pdu.Message{m}, nil })
}

// desc measures requests for a descriptor.
func desc(name string) func(r *run) error {
	return lookups(func(r *run) ([]pdu.Message, error) {
		ids, err := r.ids(name)
		if err != nil {
			return nil, err
		}
		return []pdu.Message{&pdu.DescReq{PMID: ids[0]}}, nil
	})
}

// descs measures requests for the descriptors of all the names.
func descs(names ...string) func(r *run) error {
	return lookups(func(r *run) ([]pdu.Message, error) {
		ids, err := r.ids(names...)
		return []pdu.Message{&pdu.DescIDs{PMIDs: ids}}, err
	})
}

// known returns names and their PMIDs: generated ones if the setup has them, and
// otherwise the installed ones below some names.
func (r *run) known() (names []string, ids []pdu.PMID, err error) {
	if n := r.setup.gen; n > 0 {
		for range 2000 {
			name, id := genName(rand.IntN(n), n)
			names, ids = append(names, name), append(ids, id)
		}
		return names, ids, nil
	}
	names, ids, err = r.below("kernel.*", "mem.*", "disk.*", "network.*")
	rand.Shuffle(len(ids), func(i, j int) {
		names[i], names[j] = names[j], names[i]
		ids[i], ids[j] = ids[j], ids[i]
	})
	return names, ids, err
}

// maxQueries is how many requests a scenario makes in turn.
const maxQueries = 500

// names measures requests for the PMIDs of n names each.
func names(n int) func(r *run) error {
	return lookups(func(r *run) (ms []pdu.Message, err error) {
		names, _, err := r.known()
		for ; len(names) >= n && len(ms) < maxQueries; names = names[n:] {
			ms = append(ms, &pdu.PMNSNames{Names: names[:n]})
		}
		return ms, err
	})
}

// nameOf measures requests for the names of a PMID, which may be several.
func nameOf(r *run) (ms []pdu.Message, err error) {
	_, ids, err := r.known()
	for _, id := range ids[:min(len(ids), maxQueries)] {
		ms = append(ms, &pdu.PMNSIDs{PMIDs: []pdu.PMID{id}})
	}
	return ms, err
}
