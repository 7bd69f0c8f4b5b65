package linux

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/pdu"
)

// instText returns instances as text: "0=lo 1=eth0".
func instText(list []pdu.Inst) string {
	var words []string
	for _, i := range list {
		words = append(words, fmt.Sprintf("%d=%s", i.ID, i.Name))
	}
	return strings.Join(words, " ")
}

// netDev returns a /proc/net/dev with interfaces.
func netDev(names ...string) string {
	text := "Inter-|   Receive\n face |bytes\n"
	for _, n := range names {
		text += n + ": 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
	}
	return text
}

// An instance keeps its id while it does not exist, and at a restart of the agent.
func TestIDs(t *testing.T) {
	root, cache := pmdatest.Tree(t, nil), t.TempDir()
	r := newHarness(t, Options{Root: root, CacheDir: cache})
	for _, tt := range []struct{ there, want string }{
		{"lo eth0 veth1", "0=lo 1=eth0 2=veth1"},
		{"veth2 lo eth0", "0=lo 1=eth0 3=veth2"},
		{"eth0", "1=eth0"},
		{"", ""},
		{"veth1 lo lo", "0=lo 2=veth1"},
	} {
		pmdatest.WriteFile(t, root, "proc/net/dev", netDev(strings.Fields(tt.there)...))
		if got := instText(r.Instances(indomInterface)); got != tt.want {
			t.Errorf("with %q: %q, want %q", tt.there, got, tt.want)
		}
	}
	r = newHarness(t, Options{Root: root, CacheDir: cache})
	pmdatest.WriteFile(t, root, "proc/net/dev", netDev("new", "veth2", "lo"))
	if got := instText(r.Instances(indomInterface)); got != "0=lo 3=veth2 4=new" {
		t.Errorf("a new agent has %q", got)
	}
}

// A refresh that is compared with the one before has the same result as one that is
// not.
func TestUnchangedInstances(t *testing.T) {
	newSet := func() *instances[int] {
		return newInstances[int](newHost(60, Options{Root: t.TempDir(), CacheDir: t.TempDir()}), indomDisk)
	}
	s, plain := newSet(), newSet()
	refresh := func(s *instances[int], names string, n int) string {
		s.begin()
		for name := range strings.FieldsSeq(names) {
			name, hidden := strings.CutSuffix(name, "-")
			if d := s.add([]byte(name)); d != nil {
				*d = n
			}
			if hidden {
				s.hide([]byte(name))
			}
		}
		s.end()
		text := fmt.Sprint(s.present, len(s.byName))
		s.Each(func(id int32, name string, data any) bool {
			text += fmt.Sprintf(" %d=%s,%d", id, name, *data.(*int))
			return true
		})
		return text
	}
	compare := func(names string, n int) {
		t.Helper()
		plain.rebuild = true
		if got, want := refresh(s, names, n), refresh(plain, names, n); got != want {
			t.Fatalf("refresh %d, %q:\n got %s\nwant %s", n, names, got, want)
		}
	}
	for n, names := range []string{
		"", "a b c", "a b c", "a b", "a b", "a b c d", "b a", "b a", "a- b", "a b", "a b-", "a b-",
		"a a b", "a a b", "a b", "", "", "c", "c-", "c", "x a b c",
	} {
		compare(names, n)
	}
	if s.unchanged {
		t.Error("a refresh with new instances is taken for unchanged")
	}
	compare("x a b c", -1)
	if !s.unchanged {
		t.Error("a refresh with the same instances is not taken for unchanged")
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := range 2000 {
		var names []string
		for _, name := range strings.Fields("a b c d e") {
			switch rnd.IntN(20) {
			case 0:
			case 1:
				names = append(names, name+"-")
			default:
				names = append(names, name)
			}
		}
		if rnd.IntN(10) == 0 {
			slices.Reverse(names)
		}
		compare(strings.Join(names, " "), n)
	}
}

// Interfaces that were removed take no memory, except for their ids.
func TestGoneInstancesAreFreed(t *testing.T) {
	n := newInterfaces(newHost(60, Options{Root: t.TempDir(), CacheDir: t.TempDir()}))
	for i := range 100 {
		n.parse([]byte(netDev("lo", fmt.Sprint("veth", i))))
	}
	if len(n.instances.byName) != 2 || n.instances.present != 2 {
		t.Errorf("%d by name, %d present, want 2", len(n.instances.byName), n.instances.present)
	}
}

// If the files of ids cannot be used, ids are only in memory, and are larger than
// any id in a file. The log says so once.
func TestNoCacheDir(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"proc/net/dev": netDev("lo")})
	notDir := filepath.Join(root, "file")
	if err := os.WriteFile(notDir, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	r := newHarness(t, Options{Root: root, CacheDir: filepath.Join(notDir, "pmda"), Log: slog.New(serve.NewHandler(&log, "pmda", slog.LevelInfo))})
	for i := range 20 {
		pmdatest.WriteFile(t, root, "proc/net/dev", netDev("lo", fmt.Sprint("veth", i)))
		if got, want := instText(r.Instances(indomInterface)), fmt.Sprintf("%d=lo %d=veth%d", 1<<30, 1<<30+i+1, i); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if n := strings.Count(log.String(), "\n"); n < 1 || n > 2 {
		t.Errorf("%d lines in the log, want one for reading and one for writing:\n%s", n, &log)
	}
}

// The number of names that are gone and keep their ids is limited. One that exists keeps its id.
func TestIDsAreLimited(t *testing.T) {
	for name, make := range map[string]func(*host, int) *instances[int]{"saved": newInstances[int], "unsaved": newUnsavedInstances[int]} {
		t.Run(name, func(t *testing.T) {
			s := make(newHost(60, Options{CacheDir: t.TempDir()}), indomTmpfs)
			const at = 1000
			for round := range 50 {
				s.begin()
				s.add([]byte("/"))
				for i := range at - 1 {
					if s.add(fmt.Appendf(nil, "/%d/%d", round, i)) == nil {
						t.Fatal(round, i)
					}
				}
				s.end()
				if e, err := s.cache.LookupName("/"); err != nil || e.Inst != 0 {
					t.Fatalf("after %d refreshes: %+v, %v", round, e, err)
				}
				if round%10 == 9 { // the file is empty for a moment
					s.begin()
					s.end()
					s.begin()
					s.add([]byte("/"))
					for i := range at - 1 {
						s.add(fmt.Appendf(nil, "/%d/%d", round, i))
					}
					s.end()
				}
				if active, away := s.cache.Size(); active != at || away > maxInactive || len(s.byName) != at {
					t.Fatalf("after %d refreshes %d instances are active, %d inactive, and %d by name", round, active, away, len(s.byName))
				}
			}
		})
	}
}

// If the directory is not writable, such as /sys, there is one line in the log, and
// one attempt each minute.
func TestIDsCannotBeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newInstances[struct{}](newHost(60, Options{
			Root: t.TempDir(), CacheDir: "/sys", ConfDir: t.TempDir(), Log: slog.New(serve.NewHandler(&log, "pmda", slog.LevelInfo)),
		}), indomFilesys)
		for range 3 {
			s.begin()
			s.add([]byte("/dev/one"))
			s.end()
			if s.fileDue() {
				t.Error("the file is due again at once")
			}
			time.Sleep(2 * time.Minute)
			if !s.fileDue() {
				t.Error("the file is not due after two minutes")
			}
		}
		if got := strings.Count(log.String(), "\n"); got != 1 {
			t.Errorf("%d lines in the log:\n%s", got, &log)
		}
	})
}
