package mmv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Values are the same before, between and after two files.
func TestLife(t *testing.T) {
	r := Must(New(Config{Name: "life", Dir: t.TempDir()}))
	n := Must(r.Counter(Metric{Name: "n"}))
	s := Must(r.String(Metric{Name: "s"}))
	path, err := r.Path()
	if err != nil {
		t.Fatal(err)
	}
	gone := func() {
		t.Helper()
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the file: %v", err)
		}
	}
	n.Inc()
	s.Set("before")
	gone()
	publish(t, r)
	wantValues(t, path, "n", "1", "s", "before")
	n.Inc()
	s.Set("published")
	wantValues(t, path, "n", "2", "s", "published")
	first, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, r)
	if again, err := os.Stat(path); err != nil || !os.SameFile(first, again) {
		t.Errorf("Publish without a change wrote another file (%v)", err)
	}
	g := Must(r.Gauge(Metric{Name: "late"}))
	g.Set(3)
	wantValues(t, path, "n", "2", "s", "published")
	publish(t, r)
	if again, err := os.Stat(path); err != nil || os.SameFile(first, again) {
		t.Errorf("Publish did not write another file (%v)", err)
	}
	wantValues(t, path, "n", "2", "s", "published", "late", "3")
	n.Inc()
	s.Set("again")
	g.Inc()
	wantValues(t, path, "n", "3", "s", "again", "late", "4")
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	gone()
	n.Inc()
	s.Set("closed")
	if n.Value() != 4 || s.Value() != "closed" || g.Value() != 4 {
		t.Errorf("closed: %d, %q, %d", n.Value(), s.Value(), g.Value())
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	publish(t, r)
	wantValues(t, path, "n", "4", "s", "closed", "late", "4")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	publish(t, r) // the file is there again
	wantValues(t, path, "n", "4", "s", "closed", "late", "4")
}

func TestPersistent(t *testing.T) {
	r := Must(New(Config{Name: "kept", Dir: t.TempDir(), Persistent: true}))
	n := Must(r.Counter(Metric{Name: "n"}))
	path := publish(t, r)
	n.Add(5)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	n.Add(5)
	wantValues(t, path, "n", "5")
}

// Close leaves the file of another registry, as of another process.
func TestOtherFile(t *testing.T) {
	dir := t.TempDir()
	first, second := Must(New(Config{Name: "f", Dir: dir})), Must(New(Config{Name: "f", Dir: dir}))
	Must(first.Counter(Metric{Name: "first"}))
	Must(second.Counter(Metric{Name: "second"}))
	path := publish(t, first)
	publish(t, second)
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	wantValues(t, path, "second", "0")
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A file that cannot be written is an error that says why. Updates go on, in the former file
// if there is one.
func TestPublishFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mmv")
	r := Must(New(Config{Name: "f", Dir: dir}))
	n := Must(r.Counter(Metric{Name: "n"}))
	n.Inc()
	if err := r.Publish(); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "mmv: file f: open "+dir) {
		t.Errorf("no directory: %v", err)
	}
	n.Inc()
	path := filepath.Join(dir, "f")
	if err := os.MkdirAll(filepath.Join(path, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	var linkErr *os.LinkError
	if err := r.Publish(); !errors.As(err, &linkErr) {
		t.Errorf("a directory of that name: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	x := Must(r.Instances(InDom{}))
	v := Must(x.Gauge(Metric{Name: "x"}))
	publish(t, r)
	wantValues(t, path, "n", "2")
	if err := os.Rename(dir, dir+"2"); err != nil {
		t.Fatal(err)
	}
	if err := x.Add("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Add without the directory: %v", err)
	}
	n.Inc()
	v.At("a").Set(9)
	wantValues(t, filepath.Join(dir+"2", "f"), "n", "3")
	if err := os.Rename(dir+"2", dir); err != nil {
		t.Fatal(err)
	}
	publish(t, r)
	wantValues(t, path, "n", "3", "x[a]", "9")
}

func TestInstances(t *testing.T) {
	r := Must(New(Config{Name: "f", Dir: t.TempDir()}))
	Must(r.Gauge(Metric{Name: "g"}))
	x := Must(r.Instances(InDom{Serial: 5, Names: []string{"a", "a"}, InstLabels: func(name string) Labels { return Labels{"is": name} }}))
	n := Must(x.Counter(Metric{Name: "n"}))
	s := Must(x.String(Metric{Name: "s"}))
	path := publish(t, r)
	n.At("a").Inc()
	s.At("a").Set("A")
	n.At("b").Inc() // there is no b
	if err := x.Add("b", "a", "c", "b"); err != nil {
		t.Fatal(err)
	}
	n.At("b").Inc()
	wantValues(t, path, "g", "0", "n[a]", "1", "n[b]", "1", "n[c]", "0", "s[a]", "A", "s[b]", "", "s[c]", "")
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Add("c", "b"); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("Add of what is there wrote another file (%v)", err)
	}
	if err := x.Add("d", strings.Repeat("x", 256)); err == nil || !strings.HasPrefix(err.Error(), "mmv: instance domain 5: the name of an instance of 256 bytes") {
		t.Errorf("got %v", err)
	}
	b := n.At("b")
	if err := x.Remove("b", "nothing"); err != nil {
		t.Fatal(err)
	}
	b.Add(5)
	n.At("b").Inc()
	wantValues(t, path, "g", "0", "n[a]", "1", "n[c]", "0", "s[a]", "A", "s[c]", "")
	if b.Value() != 6 || n.At("b") != nil {
		t.Errorf("removed: %d, %v", b.Value(), n.At("b"))
	}
	for _, err := range []error{x.AddID(7, "x"), x.Add("b", "y"), x.AddID(7, "x"), x.AddID(4, "z")} {
		if err != nil {
			t.Error(err)
		}
	}
	for id, name := range map[int32]string{7: "q", 8: "x", -1: "q"} {
		if err := x.AddID(id, name); err == nil {
			t.Errorf("AddID(%d, %q) has no error", id, name)
		}
	}
	if got := fmt.Sprint(x.Names()); got != "[a c x b y z]" {
		t.Errorf("names %s", got)
	}
	got := strings.Join(read(t, path).lines, "\n")
	for _, want := range []string{"instance 0 of 5: \"a\"\ninstance 2 of 5: \"c\"\ninstance 7 of 5: \"x\"\ninstance 1 of 5: \"b\"\n" +
		"instance 3 of 5: \"y\"\ninstance 4 of 5: \"z\"\n", `label 32 of 5, 3: {"is":"y"}`} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// Labels of instances that were removed do not count.
func TestInstanceLabels(t *testing.T) {
	r := Must(New(Config{Name: "f", Dir: t.TempDir()}))
	Must(r.Gauge(Metric{Name: "g"}))
	x := Must(r.Instances(InDom{InstLabels: func(name string) Labels { return Labels{"is": name} }}))
	publish(t, r)
	var names []string
	for i := range 255 {
		names = append(names, fmt.Sprint(i))
	}
	if err := x.Add(names...); err != nil {
		t.Fatal(err)
	}
	if err := x.Add("more"); err == nil || !strings.Contains(err.Error(), "256 labels") {
		t.Errorf("got %v", err)
	}
	if err := x.Remove("5"); err != nil {
		t.Fatal(err)
	}
	if err := x.Add("more"); err != nil {
		t.Error(err)
	}
}

func TestSentinel(t *testing.T) {
	r := Must(New(Config{Name: "f", Dir: t.TempDir(), Sentinel: true}))
	c, fc := Must(r.Counter(Metric{Name: "c"})), Must(r.FloatCounter(Metric{Name: "fc"}))
	g, fg := Must(r.Gauge(Metric{Name: "g"})), Must(r.FloatGauge(Metric{Name: "fg"}))
	s, e := Must(r.String(Metric{Name: "s"})), Must(r.Elapsed(Metric{Name: "e"}))
	path := publish(t, r)
	absent := []string{"c", "18446744073709551615", "fc", "NaN", "g", "-1", "fg", "NaN", "s", "", "e", "-1 0"}
	wantValues(t, path, absent...)
	if c.Value() != 0 || fc.Value() != 0 || g.Value() != 0 || fg.Value() != 0 || s.Value() != "" || e.Value() != 0 {
		t.Error("an absent value is not 0")
	}
	c.Inc()
	fc.Add(0.5)
	g.Add(3)
	fg.Add(-2)
	s.Set("x")
	wantValues(t, path, "c", "1", "fc", "0.5", "g", "3", "fg", "-2", "s", "x", "e", "-1 0")
	c.Unset()
	fc.Unset()
	g.Unset()
	fg.Unset()
	s.Set("")
	wantValues(t, path, absent...)
}

func TestElapsed(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		for _, sentinel := range []bool{false, true} {
			r := Must(New(Config{Name: "f", Dir: dir, Sentinel: sentinel}))
			e := Must(r.Elapsed(Metric{Name: "e"}))
			e.Stop() // nothing
			path := publish(t, r)
			e.Start()
			began := time.Now().UnixMicro()
			wantValues(t, path, "e", fmt.Sprintf("0 %d", -began))
			time.Sleep(time.Second)
			e.Start()
			time.Sleep(time.Second)
			e.Stop()
			wantValues(t, path, "e", fmt.Sprintf("0 %d", -began))
			Must(r.Gauge(Metric{Name: "g"}))
			publish(t, r)
			if got := read(t, path).values["e"]; got != fmt.Sprintf("0 %d", -began) {
				t.Errorf("in the second file %s", got)
			}
			time.Sleep(time.Second)
			if e.Value() != 3*time.Second {
				t.Errorf("value %v", e.Value())
			}
			e.Stop()
			e.Stop()
			if got := read(t, path).values["e"]; got != "3000000 0" {
				t.Errorf("after the end %s", got)
			}
			e.Start()
			time.Sleep(time.Millisecond)
			e.Stop()
			if got := read(t, path).values["e"]; got != "3001000 0" || e.Value() != 3001*time.Millisecond {
				t.Errorf("after the second end %s, %v", got, e.Value())
			}
		}
	})
}

// Methods of nil pointers and zero values do nothing.
func TestNil(t *testing.T) {
	for _, v := range []struct {
		c  *Counter
		fc *FloatCounter
		g  *Gauge
		fg *FloatGauge
		s  *String
		e  *Elapsed
	}{{}, {new(Counter), new(FloatCounter), new(Gauge), new(FloatGauge), new(String), new(Elapsed)}} {
		v.c.Inc()
		v.c.Set(1)
		v.c.Unset()
		v.fc.Add(1)
		v.fc.Set(1)
		v.fc.Unset()
		v.g.Inc()
		v.g.Dec()
		v.g.Set(1)
		v.g.Unset()
		v.fg.Add(1)
		v.fg.Set(1)
		v.fg.Unset()
		if err := v.s.Set("x"); err != nil {
			t.Error(err)
		}
		v.e.Start()
		v.e.Stop()
		if v.c.Value() != 0 || v.fc.Value() != 0 || v.g.Value() != 0 || v.fg.Value() != 0 || v.s.Value() != "" || v.e.Value() != 0 {
			t.Error("a value is not zero")
		}
	}
}
