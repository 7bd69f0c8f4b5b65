package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// A query is a request whose reply is always the same.
type query struct{ req, reply []byte }

// learn sends a request, checks the decoded reply, and keeps it.
func learn[T pdu.Message](c *client, req pdu.Message, check func(T) error) (query, error) {
	q := query{req: encode(req)}
	b, err := c.call(q.req)
	if err != nil {
		return q, err
	}
	q.reply = bytes.Clone(b)
	_, m, err := pdu.Parse(q.reply)
	if err != nil {
		return q, err
	}
	reply, ok := m.(T)
	if !ok {
		return q, fmt.Errorf("%v in reply to %v", m.Type(), req.Type())
	}
	return q, check(reply)
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

// repeat measures queries, one after the other.
func (r *run) repeat(qs ...query) error {
	r.measure(load{clients: 1, open: r.dial, op: func(c *client, seq int) error { return qs[seq%len(qs)].ask(c) }})
	return nil
}

// desc measures requests for a descriptor.
func desc(id pdu.PMID) func(r *run) error {
	return func(r *run) error {
		return r.once(func(c *client) error {
			q, err := learn(c, &pdu.DescReq{PMID: id}, func(d *pdu.Desc) error {
				if d.PMID != id {
					return fmt.Errorf("descriptor of %v, not of %v", d.PMID, id)
				}
				return nil
			})
			if err != nil {
				return err
			}
			return r.repeat(q)
		})
	}
}

// descs measures requests for the descriptors of all the names.
func descs(names ...string) func(r *run) error {
	return func(r *run) error {
		ids, err := r.ids(names...)
		if err != nil {
			return err
		}
		return r.once(func(c *client) error {
			q, err := learn(c, &pdu.DescIDs{PMIDs: ids}, func(m *pdu.Descs) error {
				if !slices.EqualFunc(m.Descs, ids, func(d pdu.Desc, id pdu.PMID) bool { return d.PMID == id }) {
					return fmt.Errorf("other descriptors: %v", m.Descs)
				}
				return nil
			})
			if err != nil {
				return err
			}
			return r.repeat(q)
		})
	}
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
	err = r.with(func(c *pmapi.Client) error {
		names, ids, err = below(c, "kernel", "mem", "disk", "network")
		return err
	})
	rand.Shuffle(len(ids), func(i, j int) {
		names[i], names[j] = names[j], names[i]
		ids[i], ids[j] = ids[j], ids[i]
	})
	return names, ids, err
}

// names measures requests for the PMIDs of n names each.
func names(n int) func(r *run) error {
	return func(r *run) error {
		return r.once(func(c *client) error {
			names, ids, err := r.known()
			var qs []query
			for err == nil && len(names) >= n && len(qs) < 500 {
				want := ids[:n]
				var q query
				q, err = learn(c, &pdu.PMNSNames{Names: names[:n]}, func(m *pdu.PMNSIDs) error {
					if !slices.Equal(m.PMIDs, want) {
						return fmt.Errorf("PMIDs %v, not %v", m.PMIDs, want)
					}
					return nil
				})
				names, ids, qs = names[n:], ids[n:], append(qs, q)
			}
			if err != nil {
				return err
			}
			return r.repeat(qs...)
		})
	}
}

// nameOf measures requests for the names of a PMID, which may be several.
func nameOf(r *run) error {
	return r.once(func(c *client) error {
		names, ids, err := r.known()
		var qs []query
		for i := 0; err == nil && i < min(len(ids), 500); i++ {
			var q query
			q, err = learn(c, &pdu.PMNSIDs{PMIDs: ids[i : i+1]}, func(m *pdu.PMNSNames) error {
				if !slices.Contains(m.Names, names[i]) {
					return fmt.Errorf("%v is called %q, not %s", ids[i], m.Names, names[i])
				}
				return nil
			})
			qs = append(qs, q)
		}
		if err != nil {
			return err
		}
		return r.repeat(qs...)
	})
}

// children measures requests for the names one level below name. There must be at
// least as many as least.
func children(name string, least int) func(r *run) error {
	return listing(&pdu.PMNSChild{Subtype: 1, Name: name}, "", least)
}

// traverse measures requests for the names of all metrics below name.
func traverse(name string, least int) func(r *run) error {
	return listing(&pdu.PMNSTraverse{Name: name}, name, least)
}

func listing(req pdu.Message, prefix string, least int) func(r *run) error {
	return func(r *run) error {
		return r.once(func(c *client) error {
			q, err := learn(c, req, func(m *pdu.PMNSNames) error {
				if len(m.Names) < least {
					return fmt.Errorf("%d names and not %d or more (%v)", len(m.Names), least, m.Err)
				}
				for _, name := range m.Names {
					if !strings.HasPrefix(name, prefix) {
						return fmt.Errorf("name %s is not below %s", name, prefix)
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			return r.repeat(q)
		})
	}
}
