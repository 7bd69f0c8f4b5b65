package sysfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// newReader returns a Reader for a tree with a few files.
func newReader(t *testing.T) *Reader {
	root := t.TempDir()
	err := os.MkdirAll(root+"/sys/a", 0o777)
	for name, text := range map[string]string{
		"sys/a/number": " 42 kB\n", "sys/a/text": "x y\n", "sys/a/nothing": "", "secret": "1\n", "sys/a/large": strings.Repeat("7", 5000),
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(root, name), []byte(text), 0o666))
	}
	if err = errors.Join(err, syscall.Mkfifo(root+"/sys/a/fifo", 0o666), os.Symlink("text", root+"/sys/a/link")); err != nil {
		t.Fatal(err)
	}
	return &Reader{Root: root}
}

func TestValue(t *testing.T) {
	r := newReader(t)
	for _, tt := range []struct {
		dir, file, value string
		exists           bool
	}{
		{"a", "number", "42 kB", true},
		{"a", "text", "x y", true},
		{"a", "link", "x y", true},
		{"a", "nothing", "", true},
		{"a", "fifo", "", true},
		{"a", "large", strings.Repeat("7", 4096), true},
		{"a", "none", "", false},
		{"..", "secret", "", false},
		{".", "a", "", false},
		{"", "a", "", false},
		{"a", "../../secret", "", false},
		{"a", "text\x00x", "", false},
		{"a", strings.Repeat("n", 5000), "", false},
	} {
		t.Run(fmt.Sprintf("%s/%.80s", tt.dir, tt.file), func(t *testing.T) {
			path := func() *Reader { return r.Path("/sys/").Name(tt.dir).Str("/").Name(tt.file) }
			if got := string(path().Value()); got != tt.value {
				t.Errorf("%.80q, want %.80q", got, tt.value)
			}
			if got := path().Exists(); got != tt.exists {
				t.Errorf("exists is %v", got)
			}
		})
	}
	if n, ok := r.Path("/sys/a/number").Number(); n != 42 || !ok {
		t.Errorf("number is %d, %v", n, ok)
	}
	if n, ok := r.Path("/sys/a/text").Number(); n != 0 || ok {
		t.Errorf("a text is the number %d, %v", n, ok)
	}
	if v := r.Path("/sys/a").Value(); v != nil {
		t.Errorf("a directory has the value %q", v)
	}
}

func TestText(t *testing.T) {
	r := newReader(t)
	for _, tt := range []struct {
		path string
		max  int
		want string
	}{{"/sys/a/large", 10000, strings.Repeat("7", 5000)}, {"/sys/a/large", 4097, strings.Repeat("7", 4097)}, {"/sys/a/text", 2, "x "}, {"/sys/a/nothing", 9, ""}} {
		if b, err := r.Path(tt.path).Text(tt.max); string(b) != tt.want || err != nil {
			t.Errorf("%s: %d bytes of %d, %v", tt.path, len(b), tt.max, err)
		}
	}
	for path, want := range map[string]error{"/sys/a": syscall.EISDIR, "/sys/none": fs.ErrNotExist, "/sys/a\x00": fs.ErrNotExist} {
		if b, err := r.Path(path).Text(9); !errors.Is(err, want) || b != nil {
			t.Errorf("%q: %q, %v, want %v", path, b, err, want)
		}
	}
}

func TestWhole(t *testing.T) {
	r := newReader(t)
	for path, want := range map[string]string{"/sys/a/large": strings.Repeat("7", 5000), "/sys/a/nothing": ""} {
		if b, err := r.Path(path).Whole(10000); string(b) != want || err != nil {
			t.Errorf("%s: %d bytes, %v", path, len(b), err)
		}
	}
	// The kernel gives status in one piece, and mounts in several if there are many.
	var proc Reader
	if b, err := proc.Path("/proc/self/status").Whole(1 << 20); !bytes.Contains(b, []byte("\nnonvoluntary_ctxt_switches:")) || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

func TestIsLeaf(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(filepath.Join(root, "a"), &st); err != nil || st.Nlink != 3 {
		testutil.Missing(t, errors.New("a file system that counts links"))
	}
	if err := errors.Join(os.WriteFile(filepath.Join(root, "file"), nil, 0o644), os.Mkdir(filepath.Join(root, "private"), 0o700)); err != nil {
		t.Fatal(err)
	}
	r := Reader{Root: root}
	for path, want := range map[string]bool{"/a": false, "/a/b": true, "/file": false, "/none": false, "/a\x00": false, "/private": false} {
		if got := r.Path(path).IsLeaf(); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}

func TestReaderLines(t *testing.T) {
	dir := t.TempDir()
	r := &Reader{Root: dir}
	long := strings.Repeat("x", MaxLine-1)
	stop := errors.New("stop")
	for _, tt := range []struct {
		text  string
		max   int
		lines int // that are read
		err   error
	}{
		{"", 10, 0, nil},
		{"a\nb\n", 10, 2, nil},
		{"a\n\nb", 10, 3, nil},
		{"a\nb\n", 3, 0, syscall.EFBIG},
		{strings.Repeat("line\n", 100000), 1 << 20, 100000, nil},
		{strings.Repeat("line\n", 100000), 1 << 18, 1, syscall.EFBIG},
		{"a\n" + long + "\nb\n", 1 << 20, 3, nil},
		{"a\n" + long + "x\nb\n", 1 << 20, 3, nil},
		{long + "x", 1 << 20, 1, nil},
		{long + long + long + "\n" + long + "\n", 1 << 20, 2, nil},
		{"a\nstop\nb\n", 100, 2, stop},
	} {
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(tt.text), 0o666); err != nil {
			t.Fatal(err)
		}
		var got []string
		err := r.Path("/f").Lines(tt.max, func(line []byte) error {
			if got = append(got, string(line)); string(line) == "stop" {
				return stop
			}
			if line == nil {
				got[len(got)-1] = "long"
			}
			return nil
		})
		all := strings.Split(tt.text, "\n")
		for i, line := range all {
			if len(line) >= MaxLine {
				all[i] = "long"
			}
		}
		want := strings.Join(all, "\n")
		if !errors.Is(err, tt.err) || err == nil && len(got) != tt.lines || len(got) < tt.lines {
			t.Errorf("%.20q...: %d lines, %v, want %d, %v", tt.text, len(got), err, tt.lines, tt.err)
		}
		if text := strings.Join(got, "\n"); !strings.HasPrefix(want, text) || err == nil && strings.TrimSuffix(want, "\n") != text {
			t.Errorf("%.20q... has the lines %.40q", tt.text, text)
		}
	}
	if err := r.Path("/none").Lines(1, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestListUntil(t *testing.T) {
	r := newReader(t)
	stop, n := errors.New("stop"), 0
	if err := r.Path("/sys/a").ListUntil(func([]byte, byte) error {
		n++
		if n == 2 {
			return stop
		}
		return nil
	}); !errors.Is(err, stop) || n != 2 {
		t.Errorf("%d names, %v", n, err)
	}
}

// The descriptors of a process are counted without listing them if the kernel knows their number.
func TestCountFDs(t *testing.T) {
	listed := 0
	each := func() error {
		listed++
		return nil
	}
	if n, err := newReader(t).Path("/sys/a").CountFDs(each); n != 6 || listed != 6 || err != nil {
		t.Errorf("a directory that is not of /proc: %d, %d listed, %v", n, listed, err)
	}
	const more = 100
	for range more {
		fd, err := syscall.Open("/", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(fd)
	}
	listed = 0
	n, err := new(Reader).Path("/proc/self/fd").CountFDs(each)
	if n < more || n > more+100 || err != nil {
		t.Errorf("%d descriptors, %v", n, err)
	}
	if st, err := os.Stat("/proc/self/fd"); err == nil && st.Size() > 0 && listed > 0 {
		t.Errorf("%d descriptors were listed", listed)
	}
}

func TestLinkAndList(t *testing.T) {
	r := newReader(t)
	if b, err := r.Path("/sys/a/link").Link(); string(b) != "text" || err != nil {
		t.Errorf("link: %q, %v", b, err)
	}
	for _, path := range []string{"/sys/a/text", "/sys/none", "/sys/a/link\x00"} {
		if b, err := r.Path(path).Link(); err == nil {
			t.Errorf("%q is a link to %q", path, b)
		}
	}
	types := map[string]byte{}
	if err := r.Path("/sys/").Name("a").List(func(name []byte, typ byte) { types[string(name)] = typ }); err != nil {
		t.Fatal(err)
	}
	if len(types) != 6 || !slices.Contains([]byte{syscall.DT_REG, syscall.DT_UNKNOWN}, types["text"]) {
		t.Errorf("listed %v", types)
	}
	for _, path := range []string{"/sys/a/text", "/sys/none"} {
		if err := r.Path(path).List(func(name []byte, _ byte) { t.Errorf("%s has %q", path, name) }); err == nil {
			t.Errorf("%s is a directory", path)
		}
	}
}

func FuzzDirents(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x18\x00\x0412\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		err := eachDirent(b, func(name []byte, _ byte) error {
			if len(name) == 0 {
				t.Error("a name is empty")
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A Reader with Open gives the same results as one without.
func TestReaderOpen(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "f"), []byte(" 42 \n"), 0o666), os.Symlink("f", filepath.Join(dir, "l")), syscall.Mkfifo(filepath.Join(dir, "p"), 0o666)); err != nil {
		t.Fatal(err)
	}
	opened := 0
	for _, r := range []*Reader{{Root: dir}, {Open: func(path string, flags int) (int, error) {
		opened++
		return syscall.Open(dir+path, flags|syscall.O_CLOEXEC, 0)
	}}} {
		for range 2 {
			if n, ok := r.Path("/").Name("f").Number(); n != 42 || !ok {
				t.Errorf("got %d, %v", n, ok)
			}
			if b, err := r.Path("/l").Text(10); string(b) != " 42 \n" || err != nil {
				t.Errorf("got %q, %v", b, err)
			}
			if b, err := r.Path("/l").Link(); string(b) != "f" || err != nil {
				t.Errorf("the link is %q, %v", b, err)
			}
			if b, err := r.Path("/f").Link(); err == nil {
				t.Errorf("a file is a link to %q", b)
			}
			if !r.Path("/").Exists() || !r.Path("/p").Exists() || r.Path("/x").Exists() || r.Path("/").Name("..").Exists() {
				t.Error("Exists is wrong")
			}
			if b := r.Path("/p").Value(); len(b) > 0 {
				t.Errorf("a FIFO has %q", b)
			}
			names := 0
			if err := r.Path("/").List(func([]byte, byte) { names++ }); err != nil || names != 3 {
				t.Errorf("%d names, %v", names, err)
			}
		}
	}
	if opened != 18 {
		t.Errorf("opened %d times, want 18", opened)
	}
}
