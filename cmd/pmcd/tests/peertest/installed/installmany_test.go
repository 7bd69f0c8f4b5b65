package installed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// A watcher is a client that asks the same again and again over one
// connection.
type watcher struct {
	*pmapi.Client

	below []string   // subtrees whose names are asked for
	names [][]string // the names at the start
	ids   []pdu.PMID // to be fetched: metrics that have values, then guest
	guest pdu.PMID   // a metric that may have none
}

// newWatcher connects to the pmcd of a machine and looks for the metrics below
// the names that have values now. No request may take longer than 30 seconds.
func newWatcher(m *peer.Machine, guest pdu.PMID, below ...string) (*watcher, error) {
	c, err := pmcdtest.Connect(m.Path("/run/pcp/pmcd.socket"))
	if err != nil {
		return nil, err
	}
	w := &watcher{Client: c, below: below, guest: guest}
	if err := w.look(); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// look looks for what there is to be fetched.
func (w *watcher) look() error {
	var ids []pdu.PMID
	for _, name := range w.below {
		names, found, err := pmcdtest.Below(w.Client, name)
		if err != nil {
			return err
		}
		w.names, ids = append(w.names, names), append(ids, found...)
	}
	var r pmapi.Result
	if err := w.Fetch(context.Background(), ids, &r); err != nil {
		return err
	}
	for _, s := range r.Sets {
		if len(s.Values) > 0 {
			w.ids = append(w.ids, s.PMID)
		}
	}
	w.ids = append(w.ids, w.guest)
	return nil
}

// A sighting is what a watcher has seen of its guest.
type sighting struct {
	rounds  int               // all that it asked was answered so often
	values  int               // rounds with a value of guest
	last    pdu.Errno         // of guest in the last round, if it had no value
	errs    map[pdu.Errno]int // of guest
	changes int32             // state changes
	slowest time.Duration     // round
}

// watch asks until stop is closed, and fails as soon as a name is missing or a
// metric other than guest has no value.
func (w *watcher) watch(stop <-chan struct{}) (sighting, error) {
	s := sighting{errs: map[pdu.Errno]int{}}
	var r pmapi.Result
	pace := time.NewTicker(2 * time.Millisecond) // leave something for others
	defer pace.Stop()
	for ; ; s.rounds++ {
		select {
		case <-stop:
			return s, nil
		case <-pace.C:
		}
		start := time.Now()
		for i, name := range w.below {
			if got, err := pmcdtest.NamesBelow(w.Client, name); err != nil || !slices.Equal(got, w.names[i]) {
				return s, fmt.Errorf("round %d: names below %s: %q, %w", s.rounds, name, got, err)
			}
		}
		if err := w.Fetch(context.Background(), w.ids, &r); err != nil {
			return s, fmt.Errorf("round %d: %w", s.rounds, err)
		}
		s.changes |= r.Changes
		s.slowest = max(s.slowest, time.Since(start))
		for _, vs := range r.Sets {
			switch {
			case vs.PMID != w.guest:
				if len(vs.Values) == 0 {
					return s, fmt.Errorf("round %d: %v has no value: %v", s.rounds, vs.PMID, vs.Err)
				}
			case len(vs.Values) > 0:
				s.values++
				s.last = 0
			default:
				s.errs[vs.Err]++
				s.last = vs.Err
			}
		}
	}
}

// TestPeerInstallMany installs, installs again and removes many agents while a
// client uses others: it must not see more of that than notices of change.
func TestPeerInstallMany(t *testing.T) {
	t.Parallel()
	m := ourMachine(t)
	do := func(delay, agent, answers, want string, args ...string) {
		t.Helper()
		c := peer.Client{Args: args, Stdin: answers, Env: []string{"GOPMDA_DELAY=" + delay}}
		o, err := m.Run(t.Context(), peer.PMDAs+agent, c)
		if err != nil {
			t.Fatal(err)
		}
		if want = "Check " + agent + " metrics have " + want + "\n"; o.Code != 0 || o.Stderr != "" || !strings.Contains(o.Stdout, want) {
			t.Errorf("%s: no %q in\n%s", o.Cmd, want, o)
		}
	}
	const many = 6
	for i := range many {
		addGopmda(t, m, fmt.Sprint("gopmda", i), 400+i)
	}
	// The first of them is installed again and again.
	w, err := newWatcher(m, pdu.NewPMID(400, 0, 1), "pmcd", "kernel.all", "jbd2")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if len(w.ids) < 100 {
		t.Errorf("only %d metrics", len(w.ids))
	}
	stop, end := make(chan struct{}), make(chan error)
	var saw sighting
	go func() {
		var err error
		saw, err = w.watch(stop)
		end <- err
	}()

	const appeared = "appeared ... 2 metrics and 2 values"
	for i := range many {
		// The scripts wait for pmcd.sighups to grow and then for signal_delay.
		// Ours needs no delay: it counts what is done.
		do("0", fmt.Sprint("gopmda", i), "", appeared, "./Install")
		if i%2 == 0 {
			// But when it is installed again, the first signal is one that the
			// script does not wait for.
			do("0.5", "gopmda0", "", appeared, "./Install")
		}
	}
	do("", "trivial", "dso\n", "appeared ... 1 metrics and 1 values", "./Install")
	for i := 1; i < many; i++ {
		do("0", fmt.Sprint("gopmda", i), "", "gone away ... OK", "./Remove")
	}

	close(stop)
	if err := <-end; err != nil {
		t.Error(err)
	}
	t.Logf("%d metrics: %+v", len(w.ids), saw)
	if saw.rounds < 100 || saw.values == 0 || saw.last != 0 {
		t.Error("too little was seen")
	}
	if want := int32(pdu.StateAddAgent | pdu.StateDropAgent); saw.changes&want != want {
		t.Errorf("state changes %#x, want %#x among them", saw.changes, want)
	}
	for e, n := range saw.errs {
		if !errors.Is(e, pdu.ErrnoNoAgent) && !errors.Is(e, pdu.ErrnoAgain) {
			t.Errorf("%d times the agent that is replaced: %v", n, e)
		}
	}
	expectCleanLog(t, m)
}
