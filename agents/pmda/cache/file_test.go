package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// writeFile writes the file of a Cache.
func writeFile(t testing.TB, c *Cache, text string) {
	t.Helper()
	path, err := c.Path()
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// readFile returns the contents of the file of a Cache.
func readFile(t testing.TB, c *Cache) string {
	t.Helper()
	path, err := c.Path()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// dump returns what a file has of c, and the states.
func dump(c *Cache) string {
	c.sort()
	mode := "append"
	if c.reuse {
		mode = "reuse"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d", mode, c.max)
	for _, e := range c.list {
		fmt.Fprintf(&b, "; %d %d %q %q %v", e.Inst, e.stamp, e.key, e.Name, e.State)
	}
	return b.String()
}

// Load parses valid lines and reports invalid ones.
func TestLoad(t *testing.T) {
	const none = "append 2147483647"
	long := strings.Repeat("x", maxLine-len("0 1 "))
	for _, c := range []struct {
		text, want string
		n          int
		err        string
	}{
		{"2 0 2147483647\n", none, 0, ""},
		{"1 1\n", "reuse 2147483647", 0, ""},
		{"1 0 5\n", none, 0, ""},
		{"2 1 99 and more\n7 1700000000 sda\n", `reuse 99; 7 1700000000 "" "sda" inactive`, 1, ""},
		{"2 0 9\n1 5 [656667] a  b \n0 0 z", `append 9; 0 0 "" "z" inactive; 1 5 "efg" "a  b " inactive`, 2, ""},
		{"2 0 9\n \t1\t\t5  [FF00]\vx\n", `append 9; 1 5 "\xff\x00" "x" inactive`, 1, ""},
		{"2 0 9\n2147483647 9223372036854775807 \xff\r\n", `append 9; 2147483647 9223372036854775807 "" "\xff\r" inactive`, 1, ""},
		{"2 0 9\n0 1 " + long + "\n", `append 9; 0 1 "" "` + long + `" inactive`, 1, ""},
		// Brackets in names.
		{"2 0 9\n0 1 [::1]:80 x\n1 1 [abc] y\n2 1 [ab\n3 1 []\n4 1 [cd]\n5 1 [ef]z\n",
			`append 9; 0 1 "" "[::1]:80 x" inactive; 1 1 "" "[abc] y" inactive; 2 1 "" "[ab" inactive; ` +
				`3 1 "" "[]" inactive; 4 1 "" "[cd]" inactive; 5 1 "" "[ef]z" inactive`, 6, ""},

		{"", none, 0, ""},
		{"\n", none, 0, ":1: invalid header"},
		{"x 0 9\n", none, 0, ":1: invalid header"},
		{"0 0 9\n", none, 0, ":1: invalid header"},
		{"3 0 9\n", none, 0, ":1: invalid header"},
		{"1\n", none, 0, ":1: invalid header"},
		{"2 1\n", none, 0, ":1: invalid header"},
		{"2 2 9\n", none, 0, ":1: invalid header"},
		{"2 -1 9\n", none, 0, ":1: invalid header"},
		{"2 0 -1\n", none, 0, ":1: invalid header"},
		{"2 0 2147483648\n", none, 0, ":1: invalid header"},
		{"2 0 9 " + strings.Repeat(" ", maxLine), none, 0, ":1: invalid header"},
		{"2 0 9\n0 1 a\n\n1 1 b\n", `append 9; 0 1 "" "a" inactive; 1 1 "" "b" inactive`, 2, `:3: invalid line ""`},
		{"2 0 9\n0 1 a\nx\n\x00\x00\n3 1 b\n", `append 9; 0 1 "" "a" inactive; 3 1 "" "b" inactive`, 2, `:3: invalid line "x" and 1 more invalid lines`},
		{"x\n0 1 a\n", none, 0, ":1: invalid header"},
		{"2 0 9\n0 1 \n", "append 9", 0, ":2: invalid line"},
		{"2 0 9\n0\n", "append 9", 0, ":2: invalid line"},
		{"2 0 9\na 1 b\n", "append 9", 0, `:2: invalid line "a 1 b"`},
		{"2 0 9\n-1 1 b\n", "append 9", 0, ":2: invalid line"},
		{"2 0 9\n1 -1 b\n", "append 9", 0, ":2: invalid line"},
		{"2 0 9\n1 1b\n", "append 9", 0, ":2: invalid line"},
		{"2 0 9\n2147483648 1 b\n", "append 9", 0, ":2: invalid line"},
		{"2 0 9\n0 9223372036854775808 b\n", "append 9", 0, ":2: invalid line"},
		{"2 0 9\n0 1 a\x00b\n", "append 9", 0, ":2: invalid line"},
		{"2 0 9\n0 1 " + long + "x\n", "append 9", 0, ":2: invalid line"},
	} {
		what := fmt.Sprintf("%.80q", c.text)
		t.Run(what, func(t *testing.T) {
			k := newCache(t, Options{})
			writeFile(t, k, c.text)
			n, err := k.Load()
			if c.err == "" {
				wantErr(t, what, err, nil)
			} else if wantErr(t, what, err, pdu.ErrnoGeneric); err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", what, err, c.err)
			}
			if got := dump(k); got != c.want || n != c.n {
				t.Errorf("%s: %d, %s\nwant %d, %s", what, n, got, c.n, c.want)
			}
			checkConsistent(t, k)
		})
	}
}

// Instances that exist before Load have precedence over those in the file.
func TestLoadInto(t *testing.T) {
	var warnings []string
	c := newCache(t, Options{Warn: func(err error) { warnings = append(warnings, err.Error()) }})
	c.Add("a", 42)
	add(t, c, "b long", "c")
	c.Hide("c")
	writeFile(t, c, "2 1 500\n0 5 [6b] a\n1 6 b\n2 7 d\n9 8 c\n10 9 b short\n11 10 e\n11 11 e\n")
	n, err := c.Load()
	if n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	path, _ := c.Path()
	want := []string{
		path + `:4: instance 2 "d" ignored: it conflicts with instance 2 "c"`,
		path + `:5: instance 9 "c" ignored: it conflicts with instance 2 "c"`,
		path + `:6: instance 10 "b short" ignored: it conflicts with instance 1 "b long"`,
	}
	if got := strings.Join(warnings, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("warnings:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
	if got, want := dump(c), `reuse 500; 0 5 "k" "a" active; 1 6 "" "b long" active; 2 0 "" "c" inactive; 11 11 "" "e" inactive`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if e, _ := c.Lookup(0); e.Data != 42 {
		t.Errorf("%+v", e)
	}
	checkConsistent(t, c)

	warnings = nil
	writeFile(t, c, "")
	if n, err := c.Load(); n != 0 || err != nil || len(warnings) != 1 || !strings.HasSuffix(warnings[0], ": the file is empty") {
		t.Errorf("empty file: %d, %v, %q", n, err, warnings)
	}
}

// Load rejects files that are missing, not regular or too large.
func TestLoadErrors(t *testing.T) {
	c := newCache(t, Options{})
	if n, err := c.Load(); n != 0 || !errors.Is(err, fs.ErrNotExist) || pdu.ErrnoOf(err) != -2 {
		t.Errorf("no file: %d, %v", n, err)
	}
	path, _ := c.Path()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Load(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a FIFO: %v", err)
	}
	os.Remove(path)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(secret, []byte("secret\n"), 0o600), os.Symlink(secret, path)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Load(); err == nil || !strings.Contains(err.Error(), ": a symbolic link") || strings.Contains(err.Error(), `"secret"`) {
		t.Errorf("a link: %v", err)
	}
	os.Remove(path)
	writeFile(t, c, "2 0 9\n0 1 a\n")
	if err := os.Truncate(path, maxFile+1); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Load(); !errors.Is(err, pdu.ErrnoTooBig) {
		t.Errorf("a large file: %v", err)
	}
	if err := os.Truncate(path, maxFile); err != nil {
		t.Fatal(err)
	}
	// A hole, which is many NULs, is one invalid line. The error has only its start.
	if _, err := c.Load(); err == nil || !strings.Contains(err.Error(), ":3: invalid line") || len(err.Error()) > 1000 {
		t.Errorf("a hole: %.1000v", err)
	}
}

// Save writes all instances but those with invalid names.
func TestSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().Unix()
		var warnings []string
		c := newCache(t, Options{Warn: func(err error) { warnings = append(warnings, err.Error()) }})
		writeFile(t, c, "2 1 2147483646\n7 1700000000 [78] [k\n8 1700000000 [00ff5d] k\n")
		if _, err := c.Load(); err != nil {
			t.Fatal(err)
		}
		bad := []string{"new\nline", "nul\x00", " blank", "\tblank", "[ab] no key", strings.Repeat("x", maxLine)}
		add(t, c, "a b", "[::1]:80")
		add(t, c, bad...)
		n, err := c.Save()
		if n != 4 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		want := fmt.Sprintf("2 1 2147483646\n0 %d a b\n1 %[1]d [::1]:80\n7 1700000000 [78] [k\n8 1700000000 [00ff5d] k\n", now)
		if got := readFile(t, c); got != want {
			t.Errorf("file is\n%swant\n%s", got, want)
		}
		if len(warnings) != len(bad) || !strings.Contains(warnings[0], `/250.1: instance 2 "new\nline" not written: `) {
			t.Errorf("warnings: %q", warnings)
		}

		back := New(indom, c.opt)
		if n, err := back.Load(); n != 4 || err != nil {
			t.Errorf("loaded %d, %v", n, err)
		}
		c.HideAll()
		for _, name := range bad {
			add(t, c, name)
		}
		for _, e := range c.list { // remove the bad ones alone
			if e.State == Active {
				e.State = Inactive
			} else {
				e.State = Active
			}
		}
		c.LimitInactive(0)
		c.HideAll()
		if got, want := dump(back), dump(c); got != want {
			t.Errorf("loaded %s\nwant %s", got, want)
		}
	})
}

// A Save that fails does not change the file and leaves no temporary file. It can be
// repeated.
func TestSaveFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c := newCache(t, Options{Dir: filepath.Join(file, "dir")})
	add(t, c, "a")
	if n, err := c.Save(); n != 0 || !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("no directory: %d, %v", n, err)
	}
	c.opt.Dir = filepath.Join(dir, "new", "dir")
	if n, err := c.Save(); n != 1 || err != nil {
		t.Errorf("new directory: %d, %v", n, err)
	}
	path, _ := c.Path()
	os.Remove(path)
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	add(t, c, "b")
	if n, err := c.Save(); n != 0 || err == nil {
		t.Errorf("cannot rename: %d, %v", n, err)
	}
	if names, err := os.ReadDir(c.opt.Dir); err != nil || len(names) != 1 {
		t.Errorf("files in the directory: %v, %v", names, err)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Save(); n != 2 || err != nil {
		t.Errorf("again: %d, %v", n, err)
	}
	// A limit on file sizes has the same effect as a full disk. The go command's log of what
	// the test opens must be shorter.
	const limit = 1 << 20
	pad := strings.Repeat("x", maxLine-30)
	for i := range limit/len(pad) + 1 {
		add(t, c, fmt.Sprint(i, pad))
	}
	if err := limitFileSize(t, limit, func() error {
		_, err := c.Save()
		return err
	}); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("file size limit: %v", err)
	}
	if names, err := os.ReadDir(c.opt.Dir); err != nil || len(names) != 1 {
		t.Errorf("files in the directory: %v, %v", names, err)
	}
	if got := readFile(t, c); strings.Count(got, "\n") != 3 {
		t.Errorf("file is %q", got)
	}
}

// Save does not write a file that is too large for Load.
func TestSaveTooBig(t *testing.T) {
	c := newCache(t, Options{})
	add(t, c, "a")
	c.Save()
	pad := strings.Repeat("x", maxLine-30)
	for i := range maxFile / len(pad) {
		if _, err := c.Add(fmt.Sprint(i, pad), nil); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := c.Save(); n != 0 || !errors.Is(err, pdu.ErrnoTooBig) {
		t.Errorf("%d, %v", n, err)
	}
	if got := readFile(t, c); strings.Count(got, "\n") != 2 {
		t.Errorf("the file has %d bytes", len(got))
	}
}

// limitFileSize runs f with a limit of size bytes for files. (Go ignores SIGXFSZ.)
func limitFileSize(t *testing.T, size uint64, f func() error) error {
	t.Helper()
	const which = syscall.RLIMIT_FSIZE
	var old syscall.Rlimit
	if err := syscall.Getrlimit(which, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(which, &syscall.Rlimit{Cur: size, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(which, &old)
	return f()
}

// A new file has the owner and the mode of the old one.
func TestSaveKeepsOwnerAndMode(t *testing.T) {
	c := newCache(t, Options{})
	path, _ := c.Path()
	stat := func() (os.FileMode, uint32) {
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return fi.Mode(), fi.Sys().(*syscall.Stat_t).Uid
	}
	add(t, c, "a")
	c.Save()
	if mode, _ := stat(); mode != 0o644 {
		t.Errorf("new file: %v", mode)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		t.Fatal(err)
	}
	want := uint32(os.Geteuid())
	if want == 0 {
		want = 65534
		if err := os.Chown(path, int(want), -1); err != nil {
			t.Fatal(err)
		}
	}
	c.dirty = true
	c.Save()
	if mode, uid := stat(); mode != 0o660 || uid != want {
		t.Errorf("%v of %d, want -rw-rw---- of %d", mode, uid, want)
	}
}
