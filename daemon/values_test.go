package daemon

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// A valueClient is a client of the Daemon for tests that need names and values, and not
// certain PDUs.
type valueClient struct {
	t *testing.T
	*pmapi.Client
}

// dialValues connects to the port.
func (r *harness) dialValues() *valueClient {
	r.t.Helper()
	return r.dialHost(r.tcp)
}

// dialContainer connects to the Unix socket, and chooses a container.
func (r *harness) dialContainer(name string) *valueClient {
	r.t.Helper()
	return r.dialHost("unix:" + r.unix + "?container=" + name)
}

func (r *harness) dialHost(host string) *valueClient {
	r.t.Helper()
	c, err := pmapi.Dial(context.Background(), host, pmapi.Options{Timeout: testutil.Hangs})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return &valueClient{r.t, c}
}

// errorName returns the name of the error with which the Daemon has replied. Any other error
// ends the test.
func (c *valueClient) errorName(err error) string {
	c.t.Helper()
	code, lost := pdu.Errno(0), new(pmapi.ConnError)
	if errors.As(err, &lost) || !errors.As(err, &code) {
		c.t.Error(err)
		return ""
	}
	return code.Name()
}

// fetch returns values as showSets does, and the state changes ahead of them.
func (c *valueClient) fetch(ids ...pdu.PMID) (values string, changes pdu.Errno) {
	c.t.Helper()
	var r pmapi.Result
	if err := c.Fetch(context.Background(), ids, &r); err != nil {
		return c.errorName(err), 0
	}
	return showSets(r.Sets), pdu.Errno(r.Changes)
}

// values is fetch without the state changes.
func (c *valueClient) values(ids ...pdu.PMID) string {
	c.t.Helper()
	values, _ := c.fetch(ids...)
	return values
}

// pmid returns the PMID of a name, or the name of an error.
func (c *valueClient) pmid(name string) string {
	c.t.Helper()
	ids, err := c.Lookup(context.Background(), name)
	if err != nil {
		return c.errorName(err)
	}
	return ids[0].String()
}

// traverse returns the names below one, separated by spaces, or the name of an error.
func (c *valueClient) traverse(name string) string {
	c.t.Helper()
	var names []string
	for name, err := range c.Traverse(context.Background(), name) {
		if err != nil {
			return c.errorName(err)
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// contextLabels returns the labels of the host, or the name of an error.
func (c *valueClient) contextLabels() string {
	c.t.Helper()
	sets, err := c.LabelsAt(context.Background(), pmapi.LabelContext, 0)
	if err != nil {
		return c.errorName(err)
	}
	if len(sets) != 1 {
		c.t.Errorf("%d sets of labels", len(sets))
		return ""
	}
	return pmapi.LabelsJSON(sets[0].Labels)
}
