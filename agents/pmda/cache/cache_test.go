package cache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

var indom = pdu.NewInDom(250, 1)

func newCache(t testing.TB, opt Options) *Cache {
	t.Helper()
	if opt.Dir == "" {
		opt.Dir = t.TempDir()
	}
	return New(indom, opt)
}

// active returns the ids of the active instances.
func active(c *Cache) (ids []int32) {
	c.Each(func(inst int32, _ string, _ any) bool { ids = append(ids, inst); return true })
	return ids
}

// checkConsistent checks that the list and the maps of c have the same entries.
func checkConsistent(t testing.TB, c *Cache) {
	t.Helper()
	for _, e := range c.list {
		if e.Inst < 0 || e.Inst > c.last && !e.temporary {
			t.Errorf("id %d, but the highest id so far is %d", e.Inst, c.last)
		}
		if c.byInst[e.Inst] != e || c.byName[shortName(e.Name)] != e {
			t.Errorf("%d %q is not in both maps", e.Inst, e.Name)
		}
	}
	if len(c.byInst) != len(c.list) || len(c.byName) != len(c.list) {
		t.Errorf("%d entries, %d by id, %d by name", len(c.list), len(c.byInst), len(c.byName))
	}
	if c.sorted && !slices.IsSortedFunc(c.list, func(a, b *entry) int { return int(a.Inst) - int(b.Inst) }) {
		t.Error("the list is not sorted")
	}
}

// add adds names and returns their ids.
func add(t testing.TB, c *Cache, names ...string) (ids []int32) {
	t.Helper()
	for _, name := range names {
		id, err := c.Add(name, nil)
		if err != nil {
			t.Fatalf("Add(%q): %v", name, err)
		}
		ids = append(ids, id)
	}
	checkConsistent(t, c)
	return ids
}

func wantIDs(t testing.TB, what string, got []int32, want ...int32) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: ids %v, want %v", what, got, want)
	}
}

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Names match as in the table of pmdaCache(3), "INSTANCE NAME MATCHING".
func TestNames(t *testing.T) {
	for _, c := range []struct {
		in, asked     string
		lookup, store error
	}{
		{"foodle", "foo", pdu.ErrnoInst, pdu.ErrnoInst},
		{"foo", "foodle", pdu.ErrnoInst, pdu.ErrnoInst},
		{"foo", "foo", nil, nil},
		{"foo bar", "foo", nil, nil},
		{"foo bar", "foo bar", nil, nil},
		{"foo", "foo bar", pdu.Errno(-33), pdu.ErrnoEINVAL},
		{"foo bar", "foo blah", pdu.Errno(-33), pdu.ErrnoEINVAL},
		{"foo bar", "foo ", pdu.Errno(-33), pdu.ErrnoEINVAL},
		{" foo", "", nil, nil},
		{"foo", "", pdu.ErrnoInst, pdu.ErrnoInst},
	} {
		what := fmt.Sprintf("%q in the cache, %q", c.in, c.asked)
		k := newCache(t, Options{})
		add(t, k, c.in)
		e, err := k.LookupName(c.asked)
		wantErr(t, what, err, c.lookup)
		if err == nil && e.Name != c.in {
			t.Errorf("%s: found %q", what, e.Name)
		}
		wantErr(t, what+": hide", k.Hide(c.asked), c.store)
		if active, _ := k.Size(); (active == 0) != (c.store == nil) {
			t.Errorf("%s: %d active after hide", what, active)
		}
		if errors.Is(c.store, pdu.ErrnoEINVAL) {
			_, err := k.Add(c.asked, nil)
			wantErr(t, what+": add", err, c.store)
		}
		checkConsistent(t, k)
	}

	c := newCache(t, Options{})
	_, err := c.Add("", nil)
	wantErr(t, "empty name", err, pdu.ErrnoGeneric)
	checkConsistent(t, c)
}

// New panics without an instance domain.
func TestNew(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	New(pdu.NoInDom, Options{})
}

func TestPath(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "pcp.conf")
	if err := os.WriteFile(conf, []byte("PCP_VAR_DIR=/from/conf\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dir, env, conf, want, err string }{
		{dir: "/given", env: "/env", conf: conf, want: "/given/250.1"},
		{env: "/env", conf: conf, want: "/env/config/pmda/250.1"},
		{conf: conf, err: "PCP_VAR_DIR is not set"}, // an empty variable overrides the file
		{conf: filepath.Join(dir, "none"), want: "/var/lib/pcp/config/pmda/250.1"},
		{conf: dir, err: "PCP_VAR_DIR is not set"}, // cannot be read
	} {
		t.Setenv("PCP_VAR_DIR", c.env)
		t.Setenv("PCP_CONF", c.conf)
		got, err := New(indom, Options{Dir: c.dir}).Path()
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
	os.Unsetenv("PCP_VAR_DIR")
	t.Setenv("PCP_CONF", conf)
	if got, err := New(indom, Options{}).Path(); got != "/from/conf/config/pmda/250.1" {
		t.Errorf("pcp.conf: %q, %v", got, err)
	}
}
