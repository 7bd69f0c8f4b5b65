package pmda_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// An error without a code is logged when it is new, when its text changes and when
// it recurs after a success, but at most once a minute.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fetchErr error
		m := row(0, func(_ context.Context, v *pmda.Value) error { v.SetUint(1); return fetchErr })
		m.Name = "printer.pages"
		tr, log := start(t, pmda.Config{Name: "printer", Metrics: []pmda.Metric{m}})
		ask := func(texts ...string) {
			for _, text := range texts {
				fetchErr = nil
				want := "-1=1"
				if text != "" {
					fetchErr, want = errors.New(text), "PM_ERR_GENERIC"
				}
				if got := show(fetch(t, tr, id(0, 0)).Sets[0]); got != want {
					t.Errorf("%q: got %q, want %q", text, got, want)
				}
			}
		}
		logged := func(want ...string) {
			t.Helper()
			var got []string
			for line := range strings.Lines(log.String()) {
				_, text, _ := strings.Cut(line, "printer: fetch of printer.pages: ")
				got = append(got, strings.Trim(text, "\"\n"))
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("logged %q, want %q", got, want)
			}
			log.Reset()
		}
		ask("", "no paper", "no paper", "no ink", "", "no paper")
		logged("no paper")
		time.Sleep(time.Minute)
		ask("no ink", "no ink", "no paper", "")
		logged("no ink")
		time.Sleep(time.Minute)
		ask("", "no ink", "no ink")
		logged("no ink")
		time.Sleep(time.Hour)
		ask("no ink")
		logged()
	})
}

// The error of a Source is logged once, and not for each of its metrics. It is
// logged again after a success, even if that was for another metric.
func TestLogSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fetchErr error
		source := &pmda.Source{Read: func(context.Context, *pmda.Request) error { return fetchErr }}
		var metrics []pmda.Metric
		for i := range 3 {
			m := row(i, sets(1))
			m.Source = source
			metrics = append(metrics, m)
		}
		metrics[0].InDom = &pmda.InDom{Insts: pmda.List{{ID: 1, Name: "one"}}, Source: source}
		tr, log := start(t, pmda.Config{Metrics: metrics})
		ids := []pdu.PMID{id(0, 0), id(0, 1), id(0, 2)}
		for i, want := range []int{1, 1, 2} {
			fetchErr = errors.New("broken")
			for _, s := range fetch(t, tr, ids[i:]...).Sets {
				if s.Err != pdu.ErrnoGeneric {
					t.Errorf("fetch %d: %v", i, s)
				}
			}
			if n := strings.Count(log.String(), "broken"); n != want {
				t.Errorf("fetch %d: %d lines, not %d: %s", i, n, want, log)
			}
			if i > 0 {
				fetchErr = nil
				fetch(t, tr, ids[2])
				time.Sleep(time.Minute)
			}
		}
	})
}

// Errors that no client gets are logged even if they have a code. Errors of many
// instances in one request are one line.
func TestLogErrorsOfNoClient(t *testing.T) {
	var list pmda.List
	for i := range int32(100) {
		list = append(list, pdu.Inst{ID: i, Name: fmt.Sprint("job", i)})
	}
	dom := &pmda.InDom{Insts: list, InstLabels: func(context.Context, *pmda.Request, pdu.Inst) (pmda.Labels, error) {
		return nil, pdu.ErrnoPermission
	}}
	tree := &pmda.Subtree{Prefix: "jobs", Source: &pmda.Source{Read: func(context.Context, *pmda.Request) error {
		return syscall.ENOENT
	}}}
	m := row(0, sets(1))
	m.InDom = dom
	tr, log := start(t, pmda.Config{Name: "jobs", Metrics: []pmda.Metric{m}, Subtrees: []*pmda.Subtree{tree}})
	for range 2 {
		ask(t, tr, pdu.LabelInstances, uint32(pdu.NewInDom(domain, 0)))
		fetch(t, tr, id(0, 0))
	}
	for _, want := range []string{
		"jobs: labels of instances of 400.0: job0: " + pdu.ErrnoPermission.Error(),
		"jobs: names below jobs: " + syscall.ENOENT.Error(),
	} {
		if n := strings.Count(log.String(), want); n != 1 {
			t.Errorf("%q is logged %d times; log: %s", want, n, log)
		}
	}
}

// The number of errors that are remembered is limited.
func TestLogLimit(t *testing.T) {
	lines := func(n int) int {
		var metrics []pmda.Metric
		var ids []pdu.PMID
		for i := range n {
			m := row(i%1000, func(context.Context, *pmda.Value) error { return errors.New("bad") })
			m.Cluster = i / 1000
			metrics, ids = append(metrics, m), append(ids, id(i/1000, i%1000))
		}
		tr, log := start(t, pmda.Config{Metrics: metrics})
		for range 2 {
			fetch(t, tr, ids...)
		}
		return strings.Count(log.String(), "\n")
	}
	if n := lines(1000); n != 1000 {
		t.Errorf("two fetches of 1000 metrics that fail: %d lines, want 1000", n)
	}
	if n := lines(1001); n <= 1001 {
		t.Errorf("two fetches of 1001 metrics that fail: %d lines, although only 1000 errors are remembered", n)
	}
}
