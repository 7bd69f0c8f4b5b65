package linux

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/agents/serve"
)

// withoutDescriptors runs f while the process cannot open files.
func withoutDescriptors(t *testing.T, f func()) {
	t.Helper()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}

// An agent that starts while no descriptor is free gives instances temporary ids. It
// does not change the file of ids, and uses its ids as soon as it can read it.
func TestIDsWithoutDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		dir := t.TempDir()
		const saved = "2 0 2147483647\n0 1700000000 old\n1 1700000000 eth0\n2 1700000000 lo\n"
		pmdatest.WriteFile(t, dir, "60.3", saved)
		n := newInterfaces(newHost(60, Options{
			Root: t.TempDir(), CacheDir: dir, ConfDir: t.TempDir(), Log: slog.New(serve.NewHandler(&log, "pmda", slog.LevelInfo)),
		}))
		list := func() (got []string) {
			n.instances.Each(func(id int32, name string, data any) bool {
				if data.(*iface).name != name {
					t.Errorf("%s has the values of %s", name, data.(*iface).name)
				}
				got = append(got, fmt.Sprint(id, " ", name))
				return true
			})
			return got
		}
		withoutDescriptors(t, func() {
			for range 3 {
				n.parse([]byte(netDev("lo", "eth0", "new")))
				time.Sleep(2 * time.Second)
			}
		})
		if b, err := os.ReadFile(filepath.Join(dir, "60.3")); string(b) != saved || err != nil {
			t.Fatalf("the file was\n%sand is now\n%s%v", saved, b, err)
		}
		n.parse([]byte(netDev("lo", "eth0", "new")))
		if got := strings.Join(list(), ", "); got != "1 eth0, 2 lo, 3 new" {
			t.Errorf("instances %s", got)
		}
		if got := strings.Count(log.String(), "file of instance ids"); got != 1 {
			t.Errorf("%d lines in the log:\n%s", got, &log)
		}
	})
}

// Instances with temporary ids have values.
func TestTemporaryInstances(t *testing.T) {
	dir := t.TempDir()
	pmdatest.WriteFile(t, dir, "60.3", "2 0 2147483647\n5 1 lo\n")
	n := newInterfaces(newHost(60, Options{Root: t.TempDir(), CacheDir: dir, ConfDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}))
	withoutDescriptors(t, func() { n.parse([]byte(netDev("lo", "eth0"))) })
	found := 0
	n.instances.Each(func(id int32, name string, data any) bool {
		found++
		if id < 1<<30 || data.(*iface).name != name {
			t.Errorf("%d %s: %+v", id, name, data)
		}
		return true
	})
	if found != 2 {
		t.Errorf("%d instances, want 2", found)
	}
}

// If interfaces.conf cannot be read, the agent does not behave as if the file did
// not exist, but tries again.
func TestConfWithoutDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		dir := t.TempDir()
		pmdatest.WriteFile(t, dir, "linux/interfaces.conf", "^eth0$\n")
		n := newInterfaces(newHost(60, Options{
			Root: t.TempDir(), CacheDir: t.TempDir(), ConfDir: dir, Log: slog.New(serve.NewHandler(&log, "pmda", slog.LevelInfo)),
		}))
		physical := func() (names []string) {
			n.parse([]byte(netDev("lo", "eth0")))
			n.instances.Each(func(_ int32, name string, data any) bool {
				if data.(*iface).physical {
					names = append(names, name)
				}
				return true
			})
			return names
		}
		withoutDescriptors(t, func() {
			for range 3 {
				if got := physical(); len(got) != 1 || got[0] != "eth0" {
					t.Errorf("without the file: %s", got)
				}
				time.Sleep(2 * time.Second)
			}
		})
		if got := physical(); len(got) != 1 || got[0] != "lo" {
			t.Errorf("with it: %s", got)
		}
		if got := strings.Count(log.String(), "linux: cannot use interfaces.conf"); got != 1 {
			t.Errorf("%d lines in the log:\n%s", got, &log)
		}
	})
}
