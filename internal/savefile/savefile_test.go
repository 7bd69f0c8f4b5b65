package savefile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// The file is on disk before it has the name, and then the name.
func TestSyncs(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "62.0")
	var synced []string
	sync := func(f *os.File) error {
		text, _ := os.ReadFile(path)
		name := f.Name()
		if strings.HasPrefix(filepath.Base(name), ".62.0.") {
			name = "new"
		}
		synced = append(synced, name+" "+string(text))
		return f.Sync()
	}
	for _, text := range []string{"1", "2"} {
		if err := replace(path, []byte(text), sync); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"new ", dir + " 1", "new 1", dir + " 2"}; !slices.Equal(synced, want) {
		t.Errorf("synced, and what readers find: %q, want %q", synced, want)
	}
}

// Root follows no link to the directory, or to one above it, that another user can have made.
func TestLinkedDirectory(t *testing.T) {
	for _, name := range []string{"62.0", "config/62.0"} {
		if err := Replace(filepath.Join(testutil.LinkedDir(t), name), []byte("1")); err == nil {
			t.Errorf("%s was written", name)
		}
	}
}
