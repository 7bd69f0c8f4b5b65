package simple

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// instances returns the instances of simple.now, as "id name ...".
func (r *harness) instances() string {
	r.t.Helper()
	var reply pdu.Instance
	if err := r.do(&pdu.InstanceReq{InDom: pdu.NewInDom(Domain, 1), Inst: pdu.NoInst}, &reply); err != nil {
		r.t.Fatal(err)
	}
	return list(reply.Insts)
}

func list(insts []pdu.Inst) string {
	var s []string
	for _, in := range insts {
		s = append(s, fmt.Sprintf("%d %s", in.ID, in.Name))
	}
	return strings.Join(s, " ")
}

var confTests = []struct {
	name, text string
	want       string // instances
	log        string // a part of the log; "" for an empty log
}{
	{"all", "sec,min,hour\n", "0 sec 1 min 2 hour", ""},
	{"another order", "hour,sec,min\n", "0 hour 1 sec 2 min", ""},
	{"one", "min\n", "0 min", ""},
	{"no newline", "min", "0 min", ""},
	{"twice", "min,min,sec\n", "0 min 1 sec", ""},
	{"nothing between commas", ",,min,,sec,\n", "0 min 1 sec", ""},
	{"only the first line", "hour\nmin\n", "0 hour", ""},
	{"unknown words", "day,hour\n", "0 hour", `ignoring "day" in`},
	{"blanks count", "sec, min\n", "0 sec", `ignoring " min" in`},
	{"case counts", "SEC,sec\n", "0 sec", `ignoring "SEC" in`},
	{"a carriage return counts", "sec,min\r\n", "0 sec", `ignoring "min\r" in`},
	{"a NUL ends the line", "sec\x00,min\n", "0 sec", ""},
	{"no name", "\nsec\n", "", "names no instance of simple.now"},
	{"only unknown words", "day\n", "", "names no instance of simple.now"},
	{"empty", "", "", "no data"},
	{"as long as PCP's agent reads", strings.Repeat(",", 252) + "min", "0 min", ""},
	{"longer than PCP's agent reads", strings.Repeat(",", 253) + "min", "", `ignoring "mi" in`},
}

func TestConf(t *testing.T) {
	for _, tt := range confTests {
		t.Run(tt.name, func(t *testing.T) {
			r := newHarness(t, tt.text)
			if got := r.instances(); got != tt.want {
				t.Errorf("instances %q, want %q", got, tt.want)
			}
			if got := r.log.String(); tt.log == "" && got != "" || !strings.Contains(got, tt.log) {
				t.Errorf("log: %q, want %q", got, tt.log)
			}
			r.log.Reset()
			r.instances()
			r.fetch(now)
			if got := r.log.String(); got != "" {
				t.Errorf("log for a file that has not changed: %q", got)
			}
		})
	}
}

// An instance keeps its id while the file changes, even if no client fetches
// simple.now between two changes.
func TestConfChanges(t *testing.T) {
	r := newHarness(t, "min\n")
	for _, step := range []struct {
		text string
		ask  func() string
		want string
	}{
		{"min\n", r.instances, "0 min"},
		{"hour\n", func() string { return show(r.fetch(numfetch)[0]) }, "-1=1"},
		{"sec,min\n", r.instances, "0 min 2 sec"},
		{"hour,sec,min\n", r.instances, "0 min 1 hour 2 sec"},
		{"\n", r.instances, ""},
		{"sec\n", r.instances, "2 sec"},
	} {
		r.write(step.text)
		if got := step.ask(); got != step.want {
			t.Errorf("%q: %q, want %q", step.text, got, step.want)
		}
	}
}

// Without a file there are no instances, and the error is logged once.
func TestConfGone(t *testing.T) {
	r := newHarness(t, "sec,min\n")
	r.instances()
	aside := r.conf + ".aside"
	for range 2 {
		if err := os.Rename(r.conf, aside); err != nil {
			t.Fatal(err)
		}
		r.log.Reset()
		for range 2 {
			if got := r.instances(); got != "" {
				t.Errorf("instances without a file: %q", got)
			}
			if got := show(r.fetch(now)[0]); got != "" {
				t.Errorf("values without a file: %q", got)
			}
		}
		if got := strings.Count(r.log.String(), "no such file"); got != 1 {
			t.Errorf("%d lines in the log:\n%s", got, &r.log)
		}
		// The file comes back with its old modification time.
		if err := os.Rename(aside, r.conf); err != nil {
			t.Fatal(err)
		}
		if got := r.instances(); got != "0 sec 1 min" {
			t.Errorf("the file is back: %q", got)
		}
	}
}

// A FIFO is not opened: the open would block.
func TestConfNotRegular(t *testing.T) {
	r := newHarness(t, "")
	if err := os.Remove(r.conf); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(r.conf, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := r.instances(); got != "" || !strings.Contains(r.log.String(), "not a regular file") {
		t.Errorf("a FIFO has the instances %q; log:\n%s", got, &r.log)
	}
}

func TestConfUnreadable(t *testing.T) {
	if !testutil.Unprivileged(t) {
		return
	}
	r := newHarness(t, "sec\n")
	if err := os.Chmod(r.conf, 0); err != nil {
		t.Fatal(err)
	}
	if got := r.instances(); got != "" || !strings.Contains(r.log.String(), "permission denied") {
		t.Errorf("instances %q; log:\n%s", got, &r.log)
	}
}

func TestNow(t *testing.T) {
	r := newHarness(t, "hour,min,sec\n")
	before := time.Now()
	s := r.fetch(now)[0]
	after := time.Now()
	at := func(t time.Time) string { return fmt.Sprintf("0=%d 1=%d 2=%d", t.Hour(), t.Minute(), t.Second()) }
	for t := before; !t.After(after.Add(time.Second)); t = t.Add(time.Second) {
		if show(s) == at(t) {
			return
		}
	}
	t.Errorf("simple.now is %s, want %s to %s", show(s), at(before), at(after))
}

// For any contents of the file the instances are among the three.
func FuzzConf(f *testing.F) {
	for _, tt := range confTests {
		f.Add([]byte(tt.text))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		c := &conf{
			open:      os.Open,
			path:      filepath.Join(dir, "simple.conf"),
			log:       slog.New(slog.DiscardHandler),
			instances: cache.New(pdu.NewInDom(Domain, 1), cache.Options{}),
		}
		if err := os.WriteFile(c.path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		c.readIfChanged()
		first, _, _ := strings.Cut(string(text), "\n")
		n := 0
		c.instances.Each(func(_ int32, name string, _ any) bool {
			if fields[name] == nil || !strings.Contains(first, name) {
				t.Errorf("%q is an instance", name)
			}
			n++
			return true
		})
		if n > len(fields) {
			t.Errorf("%d instances", n)
		}
	})
}

// A file that could not be read is read by a later request, even if it has not
// changed.
func TestConfReadLater(t *testing.T) {
	var log bytes.Buffer
	r := newHarness(t, "sec\n")
	c := newConf(Domain, slog.New(serve.NewHandler(&log, "pmda", slog.LevelInfo)))
	c.open = func(path string) (*os.File, error) {
		return nil, &os.PathError{Op: "open", Path: path, Err: syscall.EMFILE}
	}
	c.readIfChanged()
	c.readIfChanged()
	if n, _ := c.instances.Size(); n != 0 {
		t.Errorf("%d instances", n)
	}
	if got := strings.Count(log.String(), "too many open files"); got != 1 {
		t.Errorf("%d lines in the log:\n%s", got, &log)
	}
	c.open = os.Open
	c.readIfChanged()
	if n, _ := c.instances.Size(); n != 1 {
		t.Errorf("%s can be read, and there are %d instances", r.conf, n)
	}
}
