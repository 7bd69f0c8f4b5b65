package pmdatest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Tree writes files below a directory that lasts as long as the test. A name
// that ends in / is a directory, text that begins with "-> " is where a symbolic
// link points to.
func Tree(tb testing.TB, files map[string]string) (root string) {
	tb.Helper()
	root = tb.TempDir()
	for name, text := range files {
		WriteFile(tb, root, name, text)
	}
	return root
}

// WriteFile writes one file of a tree.
func WriteFile(tb testing.TB, root, name, text string) {
	tb.Helper()
	path := filepath.Join(root, name)
	err := os.MkdirAll(filepath.Dir(path), 0o777)
	switch to, isLink := strings.CutPrefix(text, "-> "); {
	case err != nil:
	case strings.HasSuffix(name, "/"):
		err = os.MkdirAll(path, 0o777)
	case isLink:
		err = os.Symlink(to, path)
	default:
		err = os.WriteFile(path, []byte(text), 0o666)
	}
	if err != nil {
		tb.Fatal(err)
	}
}
