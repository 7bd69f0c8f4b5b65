package pmdatest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Tree makes a temporary directory for a test and writes files below it. A name that
// ends in "/" is a directory. A text "-> TARGET" makes a symbolic link.
func Tree(tb testing.TB, files map[string]string) (root string) {
	tb.Helper()
	root = tb.TempDir()
	for name, text := range files {
		WriteFile(tb, root, name, text)
	}
	return root
}

// WriteFile writes one file below root, as Tree does.
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
