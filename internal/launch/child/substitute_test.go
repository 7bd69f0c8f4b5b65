package child

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSubstitute(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	python, script, gone := filepath.Join(dir, "python3"), filepath.Join(dir, "pmdaopenmetrics.python"), filepath.Join(dir, "no", "pmdaopenmetrics.python")
	for _, path := range []string{python, script} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dirs := []string{filepath.Join(dir, "nothing"), filepath.Join(dir, "installed")}
	ours := filepath.Join(filepath.Dir(self), "pmdas", "pmdaopenmetrics")
	check := func(argv, want []string, missing string) {
		t.Helper()
		if got, m := substitute(argv, dirs...); !slices.Equal(got, want) || m != missing {
			t.Errorf("%q: %q, missing %q; want %q, missing %q", argv, got, m, want, missing)
		}
	}
	same := func(argv ...string) { t.Helper(); check(argv, argv, "") }
	same(python, gone) // our program does not exist
	// Where pmcd is a copy in PCP's directory, our program is not beside it.
	installed := filepath.Join(dirs[1], "pmdaopenmetrics")
	if err := os.MkdirAll(dirs[1], 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(installed, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	check([]string{"no-such-python", script, "-d", "144"}, []string{installed, "-d", "144"}, "no-such-python")
	if err := os.MkdirAll(filepath.Dir(ours), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ours, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(filepath.Dir(ours)) })
	check([]string{python, gone, "-d", "144"}, []string{ours, "-d", "144"}, gone)
	check([]string{"no-such-python", script, "-t", "5"}, []string{ours, "-t", "5"}, "no-such-python")
	check([]string{filepath.Join(dir, "python9"), script}, []string{ours}, filepath.Join(dir, "python9"))
	same(python, script, "-d", "144")
	same(python, filepath.Join(dir, "no", "pmdabcc.python"))
	same(python, filepath.Join(dir, "no", "pmdanfsclient.python")) // built in
	same(python, filepath.Join(dir, "no", "openmetrics.python"))
	same(python, "pmdaopenmetrics.python")
	same(gone)
	same()
}
