package pmcd

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// blockingHost is a Host whose Hostname does not return until it is let through.
type blockingHost struct {
	*fakeHost
	entered, open chan struct{}
}

func (h blockingHost) Hostname(int32) string {
	h.entered <- struct{}{}
	<-h.open
	return "here"
}

// A fetch that does not return, and a client that leaves, hold up no other fetch or
// store.
func TestCallsAreConcurrent(t *testing.T) {
	h := blockingHost{newHost(), make(chan struct{}), make(chan struct{})}
	a := New(2, "pmcd", h, pcpConfig(t))
	var stuck sync.WaitGroup
	stuck.Go(func() {
		if got := values(t, a, remote, includeAll, pmidOf(t, "pmcd.hostname")); got[0].value != "here" {
			t.Errorf("got %v", got)
		}
	})
	<-h.entered
	var ids []pdu.PMID
	for _, id := range metricIDs() {
		if id != pmidOf(t, "pmcd.hostname") {
			ids = append(ids, id)
		}
	}
	var others sync.WaitGroup
	for client := range int32(4) {
		others.Go(func() {
			for range 20 {
				fetchAs(t, a, client, includeAll, ids...)
				r := &pdu.Result{Sets: []pdu.ValueSet{{PMID: pmidOf(t, "pmcd.control.register"), Values: []pdu.Value{{Inst: client, Word: 5}}}}}
				if err := a.Store(t.Context(), agents.Origin{Client: root}, r); err != nil {
					t.Error(err)
				}
				a.EndContext(client)
			}
		})
	}
	others.Wait()
	close(h.open)
	stuck.Wait()
	if got := values(t, a, root, includeAll, pmidOf(t, "pmcd.control.register")); got[3].value != int64(5) || got[4].value != int64(0) {
		t.Errorf("registers: %v", got)
	}
}

// endsAfter is a context that ends when it has been looked at n times.
type endsAfter struct {
	context.Context
	n, looks int
}

func (c *endsAfter) Err() error {
	if c.looks++; c.looks > c.n {
		return context.Canceled
	}
	return nil
}

// A fetch looks at its context before each metric, and after each 64 metrics and instances.
func TestFetchEndsWithContext(t *testing.T) {
	h := newHost()
	h.clients = nil
	for i := range int32(1000) {
		h.clients = append(h.clients, ClientInfo{Client: i, Seq: i})
	}
	a := newAgent(h)
	pid := pmidOf(t, "pmcd.pid")
	for _, tt := range []struct {
		n      int // of looks
		ids    []pdu.PMID
		values int
	}{
		{4, slices.Repeat([]pdu.PMID{pid}, 100), 4},
		{3, []pdu.PMID{pid, pmidOf(t, "pmcd.client.whoami"), pid}, 1 + 125},
		{5, []pdu.PMID{pid, pmidOf(t, "pmcd.client.start_date"), pid}, 1 + 125 + 64*2},
	} {
		var w pdu.ResultWriter
		w.Reset(nil, 0)
		ctx := &endsAfter{Context: t.Context(), n: tt.n}
		r := &agents.FetchRequest{PMIDs: tt.ids, Profile: includeAll}
		if err := a.Fetch(ctx, r, &w); err != context.Canceled {
			t.Errorf("%v: %v", tt.ids, err)
		}
		b, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		_, m, err := pdu.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, s := range m.(*pdu.Result).Sets {
			n += len(s.Values)
		}
		if n != tt.values {
			t.Errorf("%v: %d values after %d looks, want %d", tt.ids, n, tt.n, tt.values)
		}
	}
}

// What handles many clients or files asks for the error of the context for each 64 of them, and ends
// with the error that it returns.
func TestEndsWithContext(t *testing.T) {
	const n = 1000
	h := newHost()
	h.clients = nil
	for i := range int32(n) {
		h.clients = append(h.clients, ClientInfo{Client: i, Seq: i})
	}
	c := pcpConfig(t)
	for _, dir := range []string{"pmlogger", "pmie"} {
		for i := range n {
			if err := os.WriteFile(filepath.Join(c.TmpDir, dir, strconv.Itoa(1<<30+i)), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	a := New(2, "pmcd", h, c)
	fetch := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			var w pdu.ResultWriter
			w.Reset(nil, 0)
			return a.Fetch(ctx, &agents.FetchRequest{PMIDs: []pdu.PMID{pmidOf(t, name)}, Profile: includeAll}, &w)
		}
	}
	instances := func(indom int) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := a.Instances(ctx, agents.Origin{}, pdu.NewInDom(2, indom))
			return err
		}
	}
	for _, tt := range []struct {
		name string
		call func(context.Context) error
	}{
		{"pmcd.client.whoami", fetch("pmcd.client.whoami")},
		{"pmcd.pmlogger.port", fetch("pmcd.pmlogger.port")},
		{"pmcd.pmie.actions", fetch("pmcd.pmie.actions")},
		{"instances of clients", instances(indomClients)},
		{"instances of pmloggers", instances(indomLoggers)},
		{"instances of pmies", instances(indomPmies)},
	} {
		calls := 0
		if err := tt.call(testutil.OnErr(t.Context(), func() {
			calls++
			if n := len(a.files); n > 0 { // others would wait for the one that waits
				t.Errorf("%s: %d slots for files are held when the context is looked at", tt.name, n)
			}
		})); err != nil || calls < n/64 {
			t.Errorf("%s: %d looks at the context, want %d or more; %v", tt.name, calls, n/64, err)
		}
		calls = 0
		ctx, cancel := context.WithCancel(t.Context())
		if err := tt.call(testutil.OnErr(ctx, func() { calls++; cancel() })); err != context.Canceled || calls != 1 {
			t.Errorf("%s: %v after %d looks at the context, want %v after one", tt.name, err, calls, context.Canceled)
		}
	}
}

// A fetch copies the list of clients once, without those that the profile leaves out.
func TestClientsAreCopiedOnce(t *testing.T) {
	h := newHost()
	a := newAgent(h)
	ids := []pdu.PMID{pmidOf(t, "pmcd.client.whoami"), pmidOf(t, "pmcd.client.start_date"), pmidOf(t, "pmcd.client.container")}
	indom := pdu.NewInDom(2, indomClients)
	var absent []int32
	for i := range int32(16000) {
		absent = append(absent, 1000+i)
	}
	for _, tt := range []struct {
		profile   *pdu.Profile
		snapshots int32
		each      int
	}{
		{includeAll, 1, 3},
		{&pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: indom, Exclude: true, Insts: absent}}}, 1, 0},
		{&pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: indom, Exclude: true, Insts: []int32{7}}}}, 1, 1},
		{&pdu.Profile{Exclude: true}, 0, 0},
	} {
		h.snapshots.Store(0)
		for _, s := range fetchAs(t, a, user, tt.profile, ids...) {
			if len(s.Values) != tt.each {
				t.Errorf("%d values, want %d", len(s.Values), tt.each)
			}
		}
		if n := h.snapshots.Load(); n != tt.snapshots {
			t.Errorf("%d copies of the list of clients, want %d", n, tt.snapshots)
		}
	}
}

// If all readers of files are stuck, a fetch that needs files ends with its context,
// and others do not notice.
func TestStuckFiles(t *testing.T) {
	a := New(2, "pmcd", newHost(), pcpConfig(t))
	for range maxReaders {
		if err := a.files.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"pmcd.pmlogger.port", "pmcd.pmie.actions", "pmcd.services", "pmcd.timezone", "pmcd.client.start_date"} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			var w pdu.ResultWriter
			w.Reset(nil, 0)
			r := &agents.FetchRequest{PMIDs: []pdu.PMID{pmidOf(t, name), pmidOf(t, "pmcd.pid")}, Profile: includeAll}
			done <- a.Fetch(ctx, r, &w)
		}()
		if got := values(t, a, root, includeAll, pmidOf(t, "pmcd.numclients")); got[0].value != int64(3) {
			t.Errorf("pmcd.numclients: %v", got)
		}
		cancel()
		if err := <-done; err != context.Canceled {
			t.Errorf("%s: %v", name, err)
		}
	}
	a.files.release()
	if got := values(t, a, root, includeAll, pmidOf(t, "pmcd.pmlogger.port")); len(got) != 2 {
		t.Errorf("with one reader: %v", got)
	}
}

// An abandoned fetch leaves nothing behind for the next client with the same number.
func TestAbandonedFetchIsNotRemembered(t *testing.T) {
	a := newAgent(newHost())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := &fetch{a: a, ctx: ctx, client: user}
	f.perPDU()
	if len(a.usage.lastFetch) != 0 {
		t.Errorf("last fetches: %v", a.usage.lastFetch)
	}
}
