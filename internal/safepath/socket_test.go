package safepath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l, err := Listen(path, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if fi, err := os.Lstat(path); err != nil || fi.Mode() != fs.ModeSocket|0o660 || l.Addr().String() != path {
		t.Errorf("%v, %v at %s", fi.Mode(), err, l.Addr())
	}
	if _, err := Listen(filepath.Join(path, "none/socket"), 0o660); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("below a file: %v", err)
	}
}

// Where a thread cannot have a umask of its own, the umask is as before, and each socket has its mode.
func TestListenAtTheSameTime(t *testing.T) {
	before := unshare
	defer func() { unshare = before }()
	unshare = func() error { return syscall.EPERM }
	old := syscall.Umask(0o022)
	defer syscall.Umask(old)
	dir := t.TempDir()
	var wait sync.WaitGroup
	for i := range 200 {
		wait.Go(func() {
			path, mode := filepath.Join(dir, strconv.Itoa(i)), fs.FileMode(0o600+i%2*0o066)
			l, err := Listen(path, mode)
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
			if fi, err := os.Lstat(path); err != nil || fi.Mode().Perm() != mode {
				t.Errorf("%v, %v; want %v", fi.Mode(), err, mode)
			}
		})
	}
	wait.Wait()
	if now := syscall.Umask(0o022); now != 0o022 {
		t.Errorf("the umask is %#o", now)
	}
}

// What another user has put in the place of a file keeps its owner.
func TestGive(t *testing.T) {
	testutil.NeedRoot(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"socket", "victim", "other"} {
		l, err := Listen(at(name), 0o660)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	err := errors.Join(os.WriteFile(at("file"), nil, 0o600), os.Mkdir(at("dir"), 0o700),
		os.Symlink("victim", at("link")), os.Link(at("victim"), at("hard")), os.Chown(at("other"), 2, 2))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		uid  uint32 // afterwards
		ok   bool
	}{{"socket", 1, true}, {"file", 0, false}, {"dir", 0, false}, {"link", 0, false}, {"hard", 0, false}, {"other", 2, false}, {"none", 0, false}} {
		if err := Give(at(tt.name), 1, 1); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
		if fi, err := os.Lstat(at(tt.name)); err == nil && fi.Sys().(*syscall.Stat_t).Uid != tt.uid {
			t.Errorf("%s belongs to %d", tt.name, fi.Sys().(*syscall.Stat_t).Uid)
		}
	}
	if fi, err := os.Lstat(at("victim")); err != nil || fi.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("what links lead to: %v, %v", fi, err)
	}
}
