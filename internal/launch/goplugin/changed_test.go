package goplugin_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/launch/goplugin"
)

func TestChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pmda_x.so")
	put := func(text string, sec int64) func() {
		return func() {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, time.Time{}, time.Unix(sec, 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("a", 1)()
	stat := func() os.FileInfo {
		fi, _ := os.Stat(path)
		return fi
	}
	changed := goplugin.Changes(path, stat())
	for _, step := range []struct {
		name string
		do   func()
		want bool
	}{
		{"as it was", func() {}, false},
		{"written at another time", put("a", 2), true},
		{"the same change", func() {}, false},
		{"of another size", put("ab", 2), true},
		{"gone", func() { os.Remove(path) }, false},
		{"back", put("ab", 2), false},
		{"as it was when it was loaded", put("a", 1), false},
		{"changed again", put("ab", 2), true},
	} {
		step.do()
		if got := changed(); got != step.want {
			t.Errorf("%s: changed is %v, want %v", step.name, got, step.want)
		}
	}
	os.Remove(path)
	changed = goplugin.Changes(path, stat())
	if put("a", 1)(); changed() {
		t.Error("a file that was not there has changed")
	}
}
