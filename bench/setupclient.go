package main

import (
	"context"
	"fmt"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// open connects for requests that are not measured.
func (d *daemon) open(secure bool) (*pmapi.Client, error) {
	s := pmapi.Spec{Host: "127.0.0.1", Ports: []int{d.port}}
	if secure {
		s.Secure = pmapi.SecureEnforce
	}
	return pmapi.DialSpec(context.Background(), s, &pmapi.Options{AnyCertificate: true, Timeout: replyTimeout})
}

// with calls fn with a connection of its own, for requests that are not measured.
func (r *run) with(fn func(c *pmapi.Client) error) error {
	c, err := r.open(r.setup.tls != "")
	if err != nil {
		return err
	}
	defer c.Close()
	return fn(c)
}

// ids looks names up, all of which must be known.
func (r *run) ids(names ...string) (ids []pdu.PMID, err error) {
	err = r.with(func(c *pmapi.Client) error {
		ids, err = c.Lookup(context.Background(), names...)
		return err
	})
	return ids, err
}

// below returns the names of all metrics below names, and their PMIDs.
func below(c *pmapi.Client, tops ...string) (names []string, ids []pdu.PMID, err error) {
	for _, top := range tops {
		for name, err := range c.Traverse(context.Background(), top) {
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", top, err)
			}
			names = append(names, name)
		}
	}
	ids, err = c.Lookup(context.Background(), names...)
	return names, ids, err
}
