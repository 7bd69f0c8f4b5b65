package pmcdtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// Connect returns a client at a Unix domain socket, for a test that needs values and not
// certain PDUs. Each request may take 30 seconds.
func Connect(path string) (*pmapi.Client, error) {
	return pmapi.Dial(context.Background(), "unix:"+path, pmapi.Options{Timeout: 30 * time.Second})
}

// Value returns the value of a metric that has one value, which is a number of 32 bits.
// The error can be that of the metric.
func Value(c *pmapi.Client, id pdu.PMID) (uint32, error) {
	var r pmapi.Result
	err := c.Fetch(context.Background(), []pdu.PMID{id}, &r)
	switch {
	case err != nil:
		return 0, err
	case r.Sets[0].Err < 0:
		return 0, r.Sets[0].Err
	case len(r.Sets[0].Values) != 1:
		return 0, fmt.Errorf("%d values", len(r.Sets[0].Values))
	}
	return r.Sets[0].Values[0].Word, nil
}

// ErrnoName returns the name of the error with which pmcd has replied to a request, and any
// other error.
func ErrnoName(err error) (string, error) {
	code, lost := pdu.Errno(0), new(pmapi.ConnError)
	if errors.As(err, &lost) || !errors.As(err, &code) {
		return "", err
	}
	return code.Name(), nil
}

// Words fetches metrics. It returns a word for each: its value, if it has one of 32 bits, its
// error, or the number of values. If pmcd replies with an error, its name is the only word.
// It also returns the state changes that pmcd has reported.
func Words(c *pmapi.Client, ids ...pdu.PMID) (words string, changes int32, err error) {
	var r pmapi.Result
	if err := c.Fetch(context.Background(), ids, &r); err != nil {
		words, err = ErrnoName(err)
		return words, 0, err
	}
	all := make([]string, len(r.Sets))
	for i, vs := range r.Sets {
		switch {
		case vs.Err != 0:
			all[i] = vs.Err.Name()
		case len(vs.Values) == 1 && vs.Values[0].Block == nil:
			all[i] = fmt.Sprint(vs.Values[0].Word)
		default:
			all[i] = fmt.Sprintf("[%d values]", len(vs.Values))
		}
	}
	return strings.Join(all, " "), r.Changes, nil
}

// FetchAll fetches all metrics of the name space. It returns the number of values of
// each, or the error of the metric, which is negative.
func FetchAll(t *testing.T, c *pmapi.Client) map[pdu.PMID]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var names []string
	for name, err := range c.Traverse(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		t.Fatal("no names")
	}
	values := make(map[pdu.PMID]int)
	var r pmapi.Result
	for some := range slices.Chunk(names, 1000) {
		ids, err := c.Lookup(ctx, some...)
		if ids == nil {
			t.Fatal(err)
		}
		if err := c.Fetch(ctx, ids, &r); err != nil {
			t.Fatal(err)
		}
		for _, set := range r.Sets {
			if values[set.PMID] = len(set.Values); set.Err < 0 {
				values[set.PMID] = int(set.Err)
			}
		}
	}
	return values
}
