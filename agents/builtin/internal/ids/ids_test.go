package ids

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// update makes the instances of s those with these names.
func update(t *testing.T, s *Saved, names ...string) {
	t.Helper()
	s.Begin()
	for _, name := range names {
		if _, err := s.Add(name, nil); err != nil {
			t.Fatal(err)
		}
	}
	s.End()
}

// Each case is the state of the file's directory, in which two updates give these warnings.
func TestWarnings(t *testing.T) {
	for _, tt := range []struct {
		name  string
		state func(dir string) error
		want  []string
	}{
		{"no directory", os.Remove, nil},
		{"a directory that may not be written", link("/sys"), nil},
		{"a directory in which no file can exist", link("/proc"), nil},
		{"no file", func(string) error { return nil }, nil},
		{"a damaged file, once", func(dir string) error { return os.WriteFile(filepath.Join(dir, "43.0"), []byte("x\n"), 0o644) }, []string{"43.0"}},
		{"no regular file, once", func(dir string) error { return os.Mkdir(filepath.Join(dir, "43.0"), 0o755) }, []string{"not a regular file"}},
		{"a directory that is a file, once", func(dir string) error {
			os.Remove(dir)
			return os.WriteFile(dir, nil, 0o644)
		}, []string{"not a directory"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "pmda")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := tt.state(dir); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			s := New(pdu.NewInDom(43, 0), dir, slog.New(slog.NewTextHandler(&log, nil)))
			synctest.Test(t, func(t *testing.T) {
				update(t, s, "a")
				time.Sleep(time.Hour) // the file is tried again
				update(t, s, "a", "b")
			})
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			if log.Len() == 0 {
				lines = nil
			}
			if len(lines) != len(tt.want) {
				t.Fatalf("log:\n%s\nwant %q", log.String(), tt.want)
			}
			for i, want := range tt.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("log: %s, want %s", lines[i], want)
				}
			}
		})
	}
}

// Instances whose names cannot be saved, which a user may cause, do not fill the log.
func TestWarningsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := New(pdu.NewInDom(43, 0), t.TempDir(), slog.New(slog.NewTextHandler(&log, nil)))
		long := strings.Repeat("x", 2000)
		for hour := 1; hour <= 2; hour++ {
			for i := range 30 {
				update(t, s, "a"+long, "b"+long, fmt.Sprint(hour, ".", i, long))
				time.Sleep(time.Minute)
			}
			if n := strings.Count(log.String(), "\n"); n != hour*maxLines {
				t.Errorf("%d lines in %d hours, want %d each", n, hour, maxLines)
			}
			time.Sleep(time.Hour)
		}
	})
}

// link returns a function that puts a link in place of a directory.
func link(target string) func(dir string) error {
	return func(dir string) error {
		os.Remove(dir)
		return os.Symlink(target, dir)
	}
}

// Of instances that no longer exist, no more than maxInactive keep their ids. Those that exist
// keep theirs, also if the file has more names.
func TestLimit(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "43.0")
	var b strings.Builder
	b.WriteString("2 0 2147483647\n")
	for i := range maxInactive + 2 {
		fmt.Fprintf(&b, "%d 1700000000 old%d\n", i, i)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	s := New(pdu.NewInDom(43, 0), dir, slog.New(slog.DiscardHandler))
	check := func(inst int32, inactive, lines int) {
		t.Helper()
		if e, err := s.LookupName("old7"); err != nil || e.Inst != inst {
			t.Errorf("old7: %+v, %v, want instance %d", e, err, inst)
		}
		if _, n := s.Size(); n != inactive {
			t.Errorf("%d inactive instances, want %d", n, inactive)
		}
		if b, err := os.ReadFile(file); err != nil || bytes.Count(b, []byte("\n")) != lines {
			t.Errorf("%d lines in the file, %v, want %d", bytes.Count(b, []byte("\n")), err, lines)
		}
	}
	update(t, s, "old7", "new")
	check(7, 0, 3)
	for i := range 3 {
		var names []string
		for j := range maxInactive / 2 {
			names = append(names, fmt.Sprint(i, ".", j))
		}
		update(t, s, append(names, "old7")...)
	}
	check(7, 0, 2+maxInactive/2)
	update(t, s, "old7")
	check(7, maxInactive/2, 2+maxInactive/2)
}
