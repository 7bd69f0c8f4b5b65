package cache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

const saved = "2 0 2147483647\n0 1700000000 sda\n7 1700000000 sdb\n"

// failingOpen returns a function for Cache.open that fails with err. For EIO, the open
// succeeds and reads fail: those of /proc/self/mem do.
func failingOpen(err error) func(string, int, os.FileMode) (*os.File, error) {
	return func(path string, flag int, perm os.FileMode) (*os.File, error) {
		if err == syscall.EIO {
			return os.Open("/proc/self/mem")
		}
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
}

// A file that exists but cannot be read is not written.
func TestNotLoaded(t *testing.T) {
	for _, fault := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EACCES, syscall.EIO, syscall.ENOMEM} {
		t.Run(fault.Error(), func(t *testing.T) {
			c := newCache(t, Options{})
			writeFile(t, c, saved)
			c.open = failingOpen(fault)
			if n, err := c.Load(); n != 0 || !errors.Is(err, fault) {
				t.Errorf("load: %d, %v, want %v", n, err, fault)
			}
			wantIDs(t, "not loaded", add(t, c, "new", "sdb", "sda", "new"), 1<<30, 1<<30+1, 1<<30+2, 1<<30)
			c.Hide("sda")
			if n, err := c.Save(); n != 0 || !errors.Is(err, ErrNotLoaded) || !errors.Is(err, fault) {
				t.Errorf("Save: %d, %v", n, err)
			}
			wantErr(t, "TrySave", c.TrySave(), nil)
			if got := readFile(t, c); got != saved {
				t.Fatalf("the file was %q, is %q", saved, got)
			}

			c.open = os.OpenFile
			if n, err := c.Load(); n != 2 || err != nil {
				t.Errorf("loaded %d, %v", n, err)
			}
			checkConsistent(t, c)
			if got, want := dump(c), `append 2147483647; 0 0 "" "sda" inactive; 7 0 "" "sdb" active; 8 0 "" "new" active`; got != want {
				t.Errorf("%s\nwant %s", got, want)
			}
			wantErr(t, "TrySave", c.TrySave(), nil)
			if got := readFile(t, c); !strings.Contains(got, "\n0 ") || !strings.HasSuffix(got, " new\n") || strings.Count(got, "\n") != 4 {
				t.Errorf("the file is %q", got)
			}
			wantIDs(t, "after", add(t, c, "newer", "sda"), 9, 0)
		})
	}
}

// Instances that were added before a Load fails keep their ids.
func TestTemporaryIDs(t *testing.T) {
	c := newCache(t, Options{})
	add(t, c, "first")
	writeFile(t, c, "2 0 2147483647\n3 1 long name\n")
	c.open = failingOpen(syscall.EMFILE)
	c.Load()
	wantIDs(t, "temporary", add(t, c, "x", "long"), 1<<30, 1<<30+1)
	checkConsistent(t, c)
	c.Load() // fails again
	wantIDs(t, "temporary", add(t, c, "y", "x"), 1<<30+2, 1<<30)
	c.open = os.OpenFile
	if _, err := c.Load(); err != nil {
		t.Error(err)
	}
	checkConsistent(t, c)
	wantIDs(t, "loaded", add(t, c, "first", "x", "long", "y"), 0, 4, 3, 5)
}

// The limit of ids holds for temporary ids, too.
func TestTemporaryIDsLimited(t *testing.T) {
	c := newCache(t, Options{})
	c.max = 2
	add(t, c, "a")
	c.open = failingOpen(syscall.EMFILE)
	c.Load()
	wantIDs(t, "temporary", add(t, c, "b", "c"), 1, 2)
	if id, err := c.Add("d", nil); !errors.Is(err, pdu.ErrnoGeneric) {
		t.Errorf("no id is free: %d, %v", id, err)
	}
	c.open = os.OpenFile
	c.Load()
	wantIDs(t, "no file", add(t, c, "b", "c", "a"), 1, 2, 0)
}

// TryLoad and TrySave do not retry at each refresh.
func TestTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opens := 0
		c := newCache(t, Options{})
		writeFile(t, c, saved)
		c.open = func(path string, flag int, perm os.FileMode) (*os.File, error) {
			opens++
			return failingOpen(syscall.EMFILE)(path, flag, perm)
		}
		for i := range 100 {
			loaded, err := c.TryLoad()
			if loaded || (err != nil) != (i == 0) {
				t.Fatalf("refresh %d: %v, %v", i, loaded, err)
			}
		}
		time.Sleep(loadRetry)
		if loaded, err := c.TryLoad(); loaded || err == nil || opens != 2 {
			t.Errorf("later: %v, %v, %d opens", loaded, err, opens)
		}
		c.open = os.OpenFile
		time.Sleep(loadRetry)
		if loaded, err := c.TryLoad(); !loaded || err != nil {
			t.Errorf("after the failure: %v, %v", loaded, err)
		}
		if loaded, err := c.TryLoad(); loaded || err != nil {
			t.Errorf("again: %v, %v", loaded, err)
		}

		dir := c.opt.Dir
		c.opt.Dir = filepath.Join(dir, indom.String(), "not a directory")
		add(t, c, "new")
		for i := range 100 {
			if err := c.TrySave(); (err != nil) != (i == 0) {
				t.Fatalf("save %d: %v", i, err)
			}
		}
		c.opt.Dir = dir
		time.Sleep(saveInterval)
		wantErr(t, "save after the failure", c.TrySave(), nil)
		if got := readFile(t, c); !strings.Contains(got, "\n8 ") {
			t.Errorf("the file is %q", got)
		}
	})
	c := newCache(t, Options{})
	if loaded, err := c.TryLoad(); !loaded || err != nil {
		t.Errorf("no file: %v, %v", loaded, err)
	}
}

// A user who causes a new instance before each refresh does not cause a write at each of them. What
// was not written is written later.
func TestTrySaveOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, Options{})
		c.TryLoad()
		writes, before := 0, ""
		for i := range 100 {
			add(t, c, fmt.Sprint("mount", i))
			wantErr(t, "TrySave", c.TrySave(), nil)
			if text := readFile(t, c); text != before {
				writes, before = writes+1, text
			}
		}
		if writes != maxSaves || c.SaveDue() {
			t.Errorf("%d writes in a minute, due: %v", writes, c.SaveDue())
		}
		time.Sleep(saveInterval)
		wantErr(t, "TrySave after a minute", c.TrySave(), nil)
		if n := strings.Count(readFile(t, c), "mount"); n != 100 {
			t.Errorf("%d instances in the file", n)
		}
	})
}

// A damaged file is kept under another name when it is replaced.
func TestDamagedIsKept(t *testing.T) {
	for _, text := range []string{"\x00\x00\x00\x00", "2 0 9\n0 1 a\nnonsense\n2 1 c\n"} {
		c := newCache(t, Options{})
		writeFile(t, c, text)
		path, _ := c.Path()
		if err := os.WriteFile(path+".damaged", []byte("earlier"), 0o644); err != nil {
			t.Fatal(err)
		}
		var damaged *DamagedError
		if _, err := c.TryLoad(); !errors.As(err, &damaged) || damaged.Path != path {
			t.Errorf("%q: %v", text, err)
		}
		if err := c.TrySave(); err != nil || readFile(t, c) != text {
			t.Errorf("%q: nothing to save: %v, %q", text, err, readFile(t, c))
		}
		add(t, c, "d")
		if err := c.TrySave(); err != nil {
			t.Error(err)
		}
		if b, err := os.ReadFile(path + ".damaged"); string(b) != text || err != nil {
			t.Errorf("kept %q, %v, want %q", b, err, text)
		}
		if _, err := New(indom, c.opt).Load(); err != nil {
			t.Errorf("written: %v", err)
		}
		if err := os.Remove(path + ".damaged"); err != nil {
			t.Fatal(err)
		}
		add(t, c, "e")
		c.TrySave()
		if _, err := os.Stat(path + ".damaged"); err == nil {
			t.Error("an undamaged file was kept, too")
		}
	}
}

// If a damaged file cannot be linked, for example because the disk is full, it is
// copied. A second call does not lose the copy.
func TestDamagedIsKeptWithoutLinks(t *testing.T) {
	const text = "nonsense\n0 1 a\n"
	c := newCache(t, Options{})
	c.link = func(from, to string) error {
		return &os.LinkError{Op: "link", Old: from, New: to, Err: syscall.ENOSPC}
	}
	writeFile(t, c, text)
	path, _ := c.Path()
	for range 2 {
		if err := c.keepDamaged(path); err != nil {
			t.Fatal(err)
		}
		if got := readFile(t, c); got != text {
			t.Errorf("the file is %q", got)
		}
		if b, err := os.ReadFile(path + ".damaged"); string(b) != text || err != nil {
			t.Errorf("kept %q, %v", b, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := c.keepDamaged(path); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(path + ".damaged"); string(b) != text || err != nil {
		t.Errorf("without a file: %q, %v", b, err)
	}
}

// An error that persists has the same text each time, so that it can be logged once.
// Even root cannot create files in /sys.
func TestSaveErrorStaysTheSame(t *testing.T) {
	c := New(indom, Options{Dir: "/sys"})
	if _, err := c.TryLoad(); err != nil {
		t.Fatal(err)
	}
	add(t, c, "a")
	if c.LoadDue() || !c.SaveDue() {
		t.Error("LoadDue, or not SaveDue")
	}
	first := c.TrySave()
	if first == nil {
		t.Fatal("TrySave succeeded")
	}
	if c.SaveDue() {
		t.Error("SaveDue directly after a failure")
	}
	if _, err := c.Save(); err == nil || err.Error() != first.Error() {
		t.Errorf("%v, then %v", first, err)
	}
	if path, _ := c.Path(); !strings.Contains(first.Error(), " "+path+": ") {
		t.Errorf("%v does not name %s", first, path)
	}
}
