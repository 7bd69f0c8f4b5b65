package pmcdtest

import (
	"context"
	"fmt"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// NamesBelow returns the names of all metrics below a name, which must have some.
func NamesBelow(c *pmapi.Client, name string) (names []string, err error) {
	for name, err := range c.Traverse(context.Background(), name) {
		if err != nil {
			return nil, fmt.Errorf("names below %s: %w", name, err)
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no names below %s", name)
	}
	return names, nil
}

// Below returns the metrics below a name, all of which must be known.
func Below(c *pmapi.Client, name string) (names []string, ids []pdu.PMID, err error) {
	if names, err = NamesBelow(c, name); err != nil {
		return nil, nil, err
	}
	if ids, err = c.Lookup(context.Background(), names...); err != nil {
		return nil, nil, fmt.Errorf("metrics below %s: %w", name, err)
	}
	return names, ids, nil
}
