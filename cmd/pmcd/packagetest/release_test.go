package packagetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

const version = "1.2.3"

// checkout copies the files that git has to a directory, as another checkout would.
func checkout(t *testing.T, dir string) {
	t.Helper()
	root, err := peer.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("git", "ls-files", "-z")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		from := filepath.Join(root, name)
		fi, err := os.Stat(from)
		if errors.Is(err, os.ErrNotExist) {
			continue // removed, but not from the index
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, name)
		// Modes and times of files differ between checkouts.
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, b, 0o600|fi.Mode()&0o100)); err != nil {
			t.Fatal(err)
		}
	}
}

// release runs release.sh in a checkout and returns the sums of what it has made.
func release(t *testing.T, dir string, env []string, args ...string) map[string]string {
	t.Helper()
	out := filepath.Join(dir, "out")
	cmd := exec.Command("etc/packaging/release.sh", append(args, version, out)...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "SOURCE_DATE_EPOCH=1000000000"), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, text)
	}
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	sums := make(map[string]string)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(out, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		sums[e.Name()] = fmt.Sprintf("%x", sha256.Sum256(b))
	}
	return sums
}

// same builds in two directories, each with a build cache of its own if own is set, and
// compares. It returns the first directory with what was built, and its names.
func same(t *testing.T, own bool, args ...string) (dir string, names []string) {
	t.Helper()
	var dirs [2]string
	var sums [2]map[string]string
	for i := range dirs {
		dirs[i] = filepath.Join(t.TempDir(), strings.Repeat("x", 1+20*i))
		checkout(t, dirs[i])
		var env []string
		if own {
			env = append(env, "GOCACHE="+filepath.Join(t.TempDir(), "cache"))
		}
		sums[i] = release(t, dirs[i], env, args...)
	}
	if !maps.Equal(sums[0], sums[1]) {
		t.Errorf("built in %s:\n%v\nand in %s:\n%v", dirs[0], sums[0], dirs[1], sums[1])
	}
	return filepath.Join(dirs[0], "out"), slices.Sorted(maps.Keys(sums[0]))
}

// unpack unpacks an archive and checks that its entries are root's.
func unpack(t *testing.T, path, dir string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Uname != "" || h.ModTime.Unix() != 1000000000 || h.Mode&0o22 != 0 || h.Mode&0o44 != 0o44 {
			t.Errorf("%s: uid %d %q, time %v, mode %o", h.Name, h.Uid, h.Uname, h.ModTime, h.Mode)
		}
		to := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(to, 0o755)
		} else {
			var b []byte
			b, err = io.ReadAll(r)
			err = errors.Join(err, os.WriteFile(to, b, os.FileMode(h.Mode)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// command runs a command that must not fail, and returns what it printed.
func command(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// The archive for one processor has the same bytes from two directories. What it has in it
// installs and says its version, and that it is static; the checksums are right.
func TestStaticRelease(t *testing.T) {
	dir, names := same(t, false, "-k", "static", "-a", "amd64")
	const name = "pmcd-" + version + "-linux-amd64-static"
	if want := []string{"SHA256SUMS", name + ".tar.gz", "pmcd-" + version + ".cdx.json"}; !slices.Equal(names, want) {
		t.Errorf("built %q, want %q", names, want)
	}
	command(t, dir, "sha256sum", "-c", "SHA256SUMS")
	unpack(t, filepath.Join(dir, name+".tar.gz"), dir)
	top, dest := filepath.Join(dir, name), t.TempDir()
	command(t, top, "make", "-s", "install", "DESTDIR="+dest)
	said := command(t, dest, filepath.Join(dest, "usr/local/libexec/pcp/pmcd"), "--version")
	if !strings.HasPrefix(said, "pmcd "+version+", ") || !strings.Contains(said, "\nthis is a static build") {
		t.Errorf("pmcd --version: %s", said)
	}
	if said := command(t, dest, filepath.Join(dest, "usr/local/bin/pmcdctl"), "--version"); !strings.HasPrefix(said, "pmcdctl "+version+", ") {
		t.Errorf("pmcdctl --version: %s", said)
	}
	t.Run("image", func(t *testing.T) { testImage(t, filepath.Join(top, "bin")) })
}

// All for the processor of this host has the same bytes from two directories without a
// build cache in common: about 15 minutes.
func TestSameBytes(t *testing.T) {
	if os.Getenv("PMCD_LONG") == "" {
		t.Skip("takes long: make releasetest")
	}
	dir, names := same(t, true, "-a", "amd64")
	if len(names) != 12 {
		t.Errorf("built %q", names)
	}
	const name = "pmcd-" + version + "-linux-amd64"
	unpack(t, filepath.Join(dir, name+".tar.gz"), dir)
	dest := t.TempDir()
	command(t, filepath.Join(dir, name), "make", "-s", "install", "DESTDIR="+dest)
	for _, p := range []string{"plugins/pmda_simple.so", "pmdas/pmdasimple", "pmcd"} {
		if _, err := os.Stat(filepath.Join(dest, "usr/local/libexec/pcp", p)); err != nil {
			t.Error(err)
		}
	}
}
