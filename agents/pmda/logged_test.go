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

// An error that has no code is logged once, until it is another one or has been
// away; but no more than once a minute, however often clients ask.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fault error
		m := row(0, func(_ context.Context, v *pmda.Value) error { v.SetUint(1); return fault })
		m.Name = "printer.pages"
		cd, log := start(t, pmda.Config{Name: "printer", Metrics: []pmda.Metric{m}})
		ask := func(texts ...string) {
			for _, text := range texts {
				fault = nil
				want := "-1=1"
				if text != "" {
					fault, want = errors.New(text), "PM_ERR_GENERIC"
				}
				if got := show(fetch(t, cd, id(0, 0)).Sets[0]); got != want {
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

// A file that cannot be read is one line, and not one for each of its metrics;
// another one if it was well in between, even if other metrics are asked for.
func TestLogSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fault error
		source := &pmda.Source{Read: func(context.Context, *pmda.Request) error { return fault }}
		var metrics []pmda.Metric
		for i := range 3 {
			m := row(i, sets(1))
			m.Source = source
			metrics = append(metrics, m)
		}
		metrics[0].InDom = &pmda.InDom{Insts: pmda.List{{ID: 1, Name: "one"}}, Source: source}
		cd, log := start(t, pmda.Config{Metrics: metrics})
		ids := []pdu.PMID{id(0, 0), id(0, 1), id(0, 2)}
		for i, want := range []int{1, 1, 2} {
			fault = errors.New("broken")
			for _, s := range fetch(t, cd, ids[i:]...).Sets {
				if s.Err != pdu.ErrnoGeneric {
					t.Errorf("fetch %d: %v", i, s)
				}
			}
			if n := strings.Count(log.String(), "broken"); n != want {
				t.Errorf("fetch %d: %d lines, not %d: %s", i, n, want, log)
			}
			if i > 0 {
				fault = nil
				fetch(t, cd, ids[2])
				time.Sleep(time.Minute)
			}
		}
	})
}

// What no client sees is logged, even if it has a code. A failure of many
// instances at once is one line.
func TestLogUnseen(t *testing.T) {
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
	cd, log := start(t, pmda.Config{Name: "jobs", Metrics: []pmda.Metric{m}, Subtrees: []*pmda.Subtree{tree}})
	for range 2 {
		ask(t, cd, pdu.LabelInstances, uint32(pdu.NewInDom(domain, 0)))
		fetch(t, cd, id(0, 0))
	}
	for _, want := range []string{
		"jobs: labels of instances of 400.0: job0: " + pdu.ErrnoPermission.Error(),
		"jobs: names below jobs: " + syscall.ENOENT.Error(),
	} {
		if n := strings.Count(log.String(), want); n != 1 {
			t.Errorf("%q is there %d times, log: %s", want, n, log)
		}
	}
}

// What has failed is not remembered without end: metrics come and go.
func TestLogForgets(t *testing.T) {
	lines := func(n int) int {
		var metrics []pmda.Metric
		var ids []pdu.PMID
		for i := range n {
			m := row(i%1000, func(context.Context, *pmda.Value) error { return errors.New("bad") })
			m.Cluster = i / 1000
			metrics, ids = append(metrics, m), append(ids, id(i/1000, i%1000))
		}
		cd, log := start(t, pmda.Config{Metrics: metrics})
		for range 2 {
			fetch(t, cd, ids...)
		}
		return strings.Count(log.String(), "\n")
	}
	if n := lines(1000); n != 1000 {
		t.Errorf("1000 faults, asked for twice: %d lines, want 1000", n)
	}
	if n := lines(1001); n <= 1001 {
		t.Errorf("1001 faults, asked for twice: %d lines, but only 1000 can be remembered", n)
	}
}
