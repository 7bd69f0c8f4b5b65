package mmv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/mmv/mmvtest"
	"github.com/gopcp/pmcd/internal/mmvformat"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// one is a file with one metric, m.
func one(value int) *mmvtest.File {
	return &mmvtest.File{Metrics: []mmvtest.Metric{
		{Name: "m", Item: 1, Type: mmvformat.Int64, Sem: 3, Short: "about m", Values: []mmvtest.Value{{Data: value}}},
	}}
}

// changed checks the state change flag of the next fetch, which is the only one that has
// it.
func (c *client) changed(what string, want bool) {
	c.Helper()
	for _, want := range []bool{want, false} {
		c.values(pdu.NewPMID(70, 0, 2))
		if got := c.flags&pdu.StateNamesChange != 0; got != want {
			c.Errorf("%s: names have changed: %v, want %v", what, got, want)
		}
	}
}

func TestChanges(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mmv")
	c := newClient(t, dir) // without the directory
	c.changed("no directory", false)
	if got := c.names(); len(got) != 0 {
		t.Error(got)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c.changed("an empty directory", false)
	path := one(1).Write(t, dir, "f")
	c.changed("a file", true)
	c.want(map[string]string{"mmv.f.m": "1"})

	_, l := one(1).Append()
	mmvtest.Poke(t, path, l.Values, uint64(2))
	c.changed("a value", false)
	c.want(map[string]string{"mmv.f.m": "2"})

	one(3).Write(t, dir, "f")
	c.changed("a new file with the old name", true)
	c.want(map[string]string{"mmv.f.m": "3"})

	id := c.id("mmv.f.m")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := c.values(id)[0]; got != pdu.ErrnoPMID.Error() {
		t.Error(got)
	}
	if c.flags&pdu.StateNamesChange == 0 {
		t.Error("no state change after the end of a file")
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got := c.names(); len(got) != 0 {
		t.Error(got)
	}
	if c.log.Len() > 0 {
		t.Errorf("log: %s", &c.log)
	}
}

// A file that is written again in its place is noticed by any request that needs it.
func TestRewritten(t *testing.T) {
	var id pdu.PMID
	for _, tt := range []struct {
		name string
		ask  func(c *client) string
		want string
	}{
		{"fetch", func(c *client) string { return c.values(pdu.NewPMID(70, 1, 2))[0] }, "5"},
		{"old fetch", func(c *client) string { return c.values(id)[0] }, pdu.ErrnoPMID.Error()},
		{"name", func(c *client) string {
			_, err := c.PMID(c.Context(), agents.Origin{}, "mmv.f.n")
			return fmt.Sprint(err)
		}, "<nil>"},
		{"old name", func(c *client) string {
			_, err := c.PMID(c.Context(), agents.Origin{}, "mmv.f.m")
			return fmt.Sprint(err)
		}, pdu.ErrnoName.Error()},
		{"desc", func(c *client) string {
			d, _ := c.Desc(c.Context(), agents.Origin{}, pdu.NewPMID(70, 1, 2))
			return fmt.Sprint(d.ValueType)
		}, fmt.Sprint(pdu.Metric64)},
		{"old desc", func(c *client) string { _, err := c.Desc(c.Context(), agents.Origin{}, id); return fmt.Sprint(err) }, pdu.ErrnoPMID.Error()},
		{"text", func(c *client) string {
			s, _ := c.Text(c.Context(), agents.Origin{}, pdu.NewPMID(70, 1, 2), true)
			return s
		}, "about n"},
		{"names of", func(c *client) string {
			n, _ := c.Names(c.Context(), agents.Origin{}, pdu.NewPMID(70, 1, 2))
			return fmt.Sprint(n)
		}, "[mmv.f.n]"},
		{"traverse", func(c *client) string { return fmt.Sprint(c.names()[:3]) }, "[mmv.f.n mmv.f.o mmv.g0.m]"},
		{"children", func(c *client) string {
			n, _ := c.Children(c.Context(), agents.Origin{}, "mmv.f")
			return fmt.Sprint(n)
		}, "[{o true} {n true}]"},
		{"instances", func(c *client) string {
			_, err := c.Instances(c.Context(), agents.Origin{}, pdu.NewInDom(70, 1<<11|4))
			return fmt.Sprint(err)
		}, "<nil>"},
		{"control", func(c *client) string { return c.value("mmv.control.metrics") }, "42"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for i := range 40 { // more than a request looks at
				f := one(i)
				f.Cluster = int32(100 + i)
				f.Write(t, dir, fmt.Sprintf("g%d", i))
			}
			f := one(1)
			f.Gen, f.Cluster = 7, 1
			path := f.Write(t, dir, "f")
			c := newClient(t, dir)
			id = c.id("mmv.f.m")
			c.values(id)
			f = one(5)
			f.Gen, f.Cluster = 8, 1
			f.Metrics[0].Name, f.Metrics[0].Item, f.Metrics[0].Short = "n", 2, "about n"
			f.InDoms = []mmvtest.InDom{{Serial: 4}}
			f.Metrics = append(f.Metrics, mmvtest.Metric{Name: "o", Item: 3, Sem: 3})
			b, _ := f.Append()
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
			if got := tt.ask(c); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// A file that no request needs is noticed, too.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		one(i).Write(t, dir, fmt.Sprintf("f%02d", i))
	}
	c := newClient(t, dir)
	id := c.id("mmv.f00.m")
	c.values(id)
	mmvtest.Poke(t, filepath.Join(dir, "f19"), 16, uint64(0)) // generation 2
	var n int
	for n = 1; n < 20; n++ {
		c.values(id)
		if c.flags&pdu.StateNamesChange != 0 {
			break
		}
	}
	if n > 20/pollFiles+1 {
		t.Errorf("noticed after %d fetches of another file", n)
	}
}

// A file that is not complete is ignored until it is.
func TestInFlux(t *testing.T) {
	dir := t.TempDir()
	f := one(1)
	f.Influx = true
	path := f.Write(t, dir, "f")
	one(2).Write(t, dir, "g")
	c := newClient(t, dir)
	for range 3 {
		c.want(map[string]string{"mmv.control.reload": "1", "mmv.control.files": "1", "mmv.g.m": "2"})
	}
	c.changed("not complete", false)
	mmvtest.Poke(t, path, 16, uint64(1))
	c.want(map[string]string{"mmv.f.m": "1", "mmv.control.reload": "0", "mmv.control.files": "2"})
	mmvtest.Poke(t, path, 8, uint64(0))
	c.want(map[string]string{"mmv.control.files": "1", "mmv.control.reload": "1"})
	mmvtest.Poke(t, path, 8, uint64(1))
	mmvtest.Poke(t, path, 16, uint64(1))
	c.changed("complete", true)
	c.want(map[string]string{"mmv.f.m": "1"})
	if c.log.Len() > 0 {
		t.Errorf("log: %s", &c.log)
	}
}

// With FlagProcess, a file is of no use without its process.
func TestProcess(t *testing.T) {
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f := one(1)
	f.Process, f.Flags = int32(cmd.Process.Pid), mmvformat.FlagProcess
	f.Write(t, dir, "f")
	f.Flags = 0
	f.Write(t, dir, "g")
	f.Process, f.Flags = 0, mmvformat.FlagProcess
	f.Write(t, dir, "h")
	f.Process = -1
	f.Write(t, dir, "i")
	c := newClient(t, dir)
	if got := fmt.Sprint(c.names()); got != "[mmv.f.m mmv.g.m mmv.h.m]" {
		t.Error(got)
	}
	id := c.id("mmv.f.m")
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	// Now the cluster is that of g.
	if got := c.values(id)[0]; got != "1" || c.flags&pdu.StateNamesChange == 0 {
		t.Errorf("%s, flags %x", got, c.flags)
	}
	if got := fmt.Sprint(c.names()); got != "[mmv.g.m mmv.h.m]" {
		t.Error(got)
	}
}

// A file that shrinks is no crash, and no value of another metric.
func TestShrinks(t *testing.T) {
	for _, size := range []int64{0, 20, 40, 100, 200, 300} {
		dir := t.TempDir()
		path := mmvtest.Sample(2).Write(t, dir, "s")
		c := newClient(t, dir)
		var ids []pdu.PMID
		for _, name := range c.names() {
			ids = append(ids, c.id(name))
		}
		c.values(ids...)
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		for i, got := range c.values(ids...) {
			if got != pdu.ErrnoPMID.Error() {
				t.Errorf("%d bytes: %v is %s", size, ids[i], got)
			}
		}
	}
}

// While files are replaced and shrink, values are right or absent.
func TestReplacedWhileRead(t *testing.T) {
	dir := t.TempDir()
	f := one(1)
	for i := range 200 {
		f.Metrics = append(f.Metrics, mmvtest.Metric{
			Name: fmt.Sprint("m", i), Item: uint32(i + 2), Type: mmvformat.String, Sem: 3, Values: []mmvtest.Value{{Data: "abc"}},
		})
	}
	f.Cluster = 3
	whole, _ := f.Append()
	path := mmvtest.Write(t, dir, "f", whole)
	c := newClient(t, dir)
	ids := []pdu.PMID{pdu.NewPMID(70, 3, 1), pdu.NewPMID(70, 3, 2), pdu.NewPMID(70, 3, 150)}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			switch i % 3 {
			case 0:
				os.Truncate(path, int64(i*37%len(whole)))
			case 1:
				os.WriteFile(path, whole, 0o644)
			case 2:
				mmvtest.Write(t, dir, "f", whole)
			}
		}
	}()
	for range 500 {
		for i, got := range c.values(ids...) {
			right := `"abc"`
			if i == 0 {
				right = "1"
			}
			switch got {
			case right, "", pdu.ErrnoPMID.Error(), pdu.ErrnoAgain.Error(), pdu.ErrnoInst.Error():
			case pdu.ErrnoGeneric.Error(): // the file ends between the value and its string
				if i == 0 {
					t.Fatalf("%v is %s", ids[i], got)
				}
			default:
				t.Fatalf("%v is %s", ids[i], got)
			}
		}
	}
	close(stop)
	<-done
	mmvtest.Write(t, dir, "f", whole)
	if got := fmt.Sprint(c.values(ids...)); got != `[1 "abc" "abc"]` {
		t.Error(got)
	}
}

// Changes take a limited part of the time. Without it, requests are answered from what is known.
func TestBudget(t *testing.T) {
	dir := t.TempDir()
	one(1).Write(t, dir, "f")
	c := newClient(t, dir)
	c.id("mmv.f.m")
	c.budget = budget{left: 0, last: time.Unix(1000, 0)}
	now := time.Unix(1000, 0)
	c.now = func() time.Time { return now }
	one(2).Write(t, dir, "g")
	f := one(3)
	f.Gen = 9
	b, _ := f.Append()
	if err := os.WriteFile(filepath.Join(dir, "f"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := c.names(); !slices.Equal(got, []string{"mmv.f.m"}) {
			t.Errorf("without budget: %q", got)
		}
		// The file is no longer what it was.
		if got := c.value("mmv.f.m"); got != pdu.ErrnoAgain.Error() {
			t.Error(got)
		}
	}
	if n := strings.Count(c.log.String(), "noticed late"); n != 1 {
		t.Errorf("%d lines: %s", n, &c.log)
	}
	now = now.Add(time.Second)
	if got := c.names(); !slices.Equal(got, []string{"mmv.f.m", "mmv.g.m"}) {
		t.Errorf("with budget: %q", got)
	}
	c.want(map[string]string{"mmv.f.m": "3", "mmv.g.m": "2"})

	b2 := newBudget(now)
	b2.spend(5 * time.Second)
	if b2.left != -maxDebt || b2.allows(now.Add(maxDebt*fraction)) || !b2.allows(now.Add(maxDebt*fraction+time.Second)) {
		t.Errorf("debt: %v", b2)
	}
	if b2.allows(now.Add(time.Hour)); b2.left != burst {
		t.Errorf("full: %v", b2)
	}
}

// A call that ends early leaves nothing undone.
func TestEndsWithContext(t *testing.T) {
	dir := t.TempDir()
	for i := range 10 {
		one(i).Write(t, dir, fmt.Sprint("f", i))
	}
	c := newClient(t, dir)
	for i := range 10 {
		one(10+i).Write(t, dir, fmt.Sprint("f", i))
	}
	calls := 0
	ctx, cancel := context.WithCancel(t.Context())
	ctx = testutil.OnErr(ctx, func() {
		if calls++; calls == 5 {
			cancel()
		}
	})
	if _, err := c.Traverse(ctx, agents.Origin{}, "mmv"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for i := range 10 {
		c.want(map[string]string{fmt.Sprintf("mmv.f%d.m", i): fmt.Sprint(10 + i)})
	}
}

// The first request reads the files, even if the one before ended early.
func TestFirstRequest(t *testing.T) {
	dir := t.TempDir()
	one(1).Write(t, dir, "f")
	a := newAgent(t, Options{Dir: dir})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.PMID(ctx, agents.Origin{}, "mmv.f.m"); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled request: %v", err)
	}
	if id, err := a.PMID(t.Context(), agents.Origin{}, "mmv.f.m"); err != nil || id != pdu.NewPMID(70, 1, 1) {
		t.Errorf("%v, %v", id, err)
	}
}

// A directory whose next change can have the time of the last one is read again.
func TestRecent(t *testing.T) {
	second := time.Unix(1e9, 0)
	for _, tt := range []struct {
		changed, read time.Duration // after second
		want          bool
	}{
		{time.Millisecond, time.Millisecond, true},
		{time.Millisecond, 15 * time.Millisecond, true},
		{time.Millisecond, 25 * time.Millisecond, false},
		{time.Millisecond, 0, false}, // the clock was set back
		// The file system may have whole seconds.
		{0, 0, true},
		{0, 999 * time.Millisecond, true},
		{0, 1010 * time.Millisecond, true},
		{0, 1050 * time.Millisecond, false},
	} {
		if got := isRecent(syscall.NsecToTimespec(second.Add(tt.changed).UnixNano()), second.Add(tt.read)); got != tt.want {
			t.Errorf("changed at %v, read at %v: %t", tt.changed, tt.read, got)
		}
	}
}
