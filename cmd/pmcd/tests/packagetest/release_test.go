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
	"strconv"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

const version = "1.2.3"

var packageNames = []string{"pmcd", "pmcd-swap", "pmcd-plugins", "pmcd-prometheus", "pmcd-openmetrics"}

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
		testutil.Missing(t, "the sources are not those of a git checkout: ", err)
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

// checkouts makes two directories with the same files, those that git has.
func checkouts(t *testing.T) (dirs [2]string) {
	t.Helper()
	for i := range dirs {
		dirs[i] = filepath.Join(t.TempDir(), strings.Repeat("x", 1+20*i))
	}
	checkout(t, dirs[0])
	if err := os.CopyFS(dirs[1], os.DirFS(dirs[0])); err != nil {
		t.Fatal(err)
	}
	return dirs
}

// release runs release.sh in a checkout and returns the sums of what it has made.
func release(t *testing.T, dir string, env []string, args ...string) map[string]string {
	t.Helper()
	out := filepath.Join(dir, "out")
	script(t, dir, env, append(append([]string{"etc/packaging/release.sh"}, args...), version, out)...)
	return sumsOf(t, out)
}

// script runs a script of a checkout, which has to make the same files with any environment.
func script(t *testing.T, dir string, env []string, args ...string) {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", `umask ${UMASK:-022}; exec "$@"`, "sh"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "SOURCE_DATE_EPOCH=1000000000"), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, text)
	}
}

// sumsOf returns the checksums of the files in a directory.
func sumsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	sums := make(map[string]string)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		sums[e.Name()] = fmt.Sprintf("%x", sha256.Sum256(b))
	}
	return sums
}

// same builds in two directories and compares. If all is set, nothing else is the same
// either: the builds have their own build caches, directories of temporary files, names
// of the sysroots, modes of new files and locales. It returns the first directory with
// what was built, and its names.
func same(t *testing.T, all bool, args ...string) (dir string, names []string) {
	t.Helper()
	dirs := checkouts(t)
	var sums [2]map[string]string
	for i := range dirs {
		var env []string
		if all {
			env = surroundings(t, i)
		}
		sums[i] = release(t, dirs[i], env, args...)
	}
	equal(t, sums)
	return filepath.Join(dirs[0], "out"), slices.Sorted(maps.Keys(sums[0]))
}

// equal checks that two builds have made the same files.
func equal(t *testing.T, sums [2]map[string]string) {
	t.Helper()
	for name, sum := range sums[0] {
		if sums[1][name] != sum {
			t.Errorf("%s: %s from one directory, %q from the other", name, sum, sums[1][name])
		}
	}
	if len(sums[0]) == 0 || len(sums[0]) != len(sums[1]) {
		t.Errorf("built %v and %v", sums[0], sums[1])
	}
}

// surroundings returns environment variables for build i, which differ from those of the
// other builds.
func surroundings(t *testing.T, i int) []string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("y", 1+10*i))
	tmp := filepath.Join(dir, "tmp")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	base := os.Getenv("PMCD_SYSROOTS")
	if base == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		base = filepath.Join(cache, "pmcd-sysroots")
	}
	sysroots := filepath.Join(dir, "sysroots")
	if err := errors.Join(os.MkdirAll(base, 0o755), os.Symlink(base, sysroots)); err != nil {
		t.Fatal(err)
	}
	return []string{
		"GOCACHE=" + filepath.Join(dir, "cache"),
		"TMPDIR=" + tmp,
		"PMCD_SYSROOTS=" + sysroots,
		"UMASK=" + []string{"022", "077"}[i],
		"TZ=" + []string{"UTC", "Asia/Tokyo"}[i],
		"LC_ALL=" + []string{"C", "C.UTF-8"}[i],
		"CGO_CFLAGS=" + []string{"-O2", "-g -O3"}[i],
	}
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
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(to, 0o755)
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, to)
		default:
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
	testutil.NeedModules(t)
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
	for _, ctl := range []string{filepath.Join(top, "bin/pmcdctl"), filepath.Join(dest, "usr/local/bin/pmcdctl")} {
		command(t, dest, ctl, "check-agents", "--embedded", "pmcd")
	}
	t.Run("image", func(t *testing.T) { testImage(t, filepath.Join(top, "bin")) })
}

// In each package, pmcdctl finds the pmcd of the package.
func TestCheckAgentsInPackages(t *testing.T) {
	root, err := peer.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	command(t, root, "go", "build", "-buildvcs=false", "-o", bin+"/", "./cmd/pmcd", "./cmd/pmcd/pmcdctl")
	for _, kind := range []string{"deb", "rpm"} {
		for _, name := range []string{"pmcd", "pmcd-swap"} {
			top := t.TempDir()
			command(t, root, "etc/packaging/files.sh", kind, name, bin, top)
			said := command(t, top, filepath.Join(top, "usr/bin/pmcdctl"), "check-agents", "--embedded", "pmcd")
			if !strings.Contains(said, "not started: it is part of pmcd") {
				t.Errorf("%s of %s:\n%s", name, kind, said)
			}
		}
	}
}

// Packages of the same programs have the same bytes, whatever is in the programs.
func TestSamePackages(t *testing.T) {
	peer.NeedPackager(t)
	var sums [2]map[string]string
	for i, dir := range checkouts(t) {
		for _, name := range []string{"pmcd", "pmcdctl", "pmcd-prometheus", "plugins/pmda_simple.so", "pmdas/pmdas", "pmdas/pmdaopenmetrics"} {
			path := filepath.Join(dir, "bin", name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), 0o700|os.FileMode(i*0o55))); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("pmdas", filepath.Join(dir, "bin/pmdas/pmdasimple")); err != nil {
			t.Fatal(err)
		}
		env := slices.DeleteFunc(surroundings(t, i), func(v string) bool { return strings.HasPrefix(v, "GOCACHE=") })
		out := filepath.Join(dir, "out")
		script(t, dir, env, "etc/packaging/packages.sh", version, "amd64", "bin", out)
		sums[i] = sumsOf(t, out)
	}
	equal(t, sums)
	if len(sums[0]) != 2*len(packageNames) {
		t.Errorf("made %v", sums[0])
	}
}

// lintian checks a package, against which it may have nothing but what its overrides name.
func lintian(t *testing.T, file string) {
	t.Helper()
	cmd := exec.Command(testutil.NeedProgram(t, "lintian"), "--allow-root", "--fail-on=error,warning", "--tag-display-limit", "0", file)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "unused-override") {
		t.Errorf("%s: %v\n%s", filepath.Base(file), err, out)
	}
}

// All for a processor has the same bytes from two directories with nothing in common: about
// 15 minutes each.
func TestSameBytes(t *testing.T) {
	if os.Getenv("PMCD_LONG") == "" {
		t.Skip("takes long: make releasetest")
	}
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			dir, names := same(t, true, "-a", arch)
			if want := released(arch); !slices.Equal(names, want) {
				t.Errorf("built %q, want %q", names, want)
			}
			name := "pmcd-" + version + "-linux-" + arch
			for _, p := range packageNames {
				lintian(t, filepath.Join(dir, p+"_"+version+"_"+arch+".deb"))
			}
			size := command(t, dir, "dpkg-deb", "-f", "pmcd-plugins_"+version+"_"+arch+".deb", "Installed-Size")
			if kB, err := strconv.Atoi(strings.TrimSpace(size)); err != nil || kB > 40000 {
				t.Errorf("pmcd-plugins takes %s kB, and may take 40 MB: %v", size, err)
			}
			unpack(t, filepath.Join(dir, name+".tar.gz"), dir)
			dest := t.TempDir()
			command(t, filepath.Join(dir, name), "make", "-s", "install", "DESTDIR="+dest)
			for _, p := range []string{"plugins/pmda_simple.so", "pmdas/pmdasimple", "pmdas/pmdaopenmetrics", "pmcd"} {
				if _, err := os.Stat(filepath.Join(dest, "usr/local/libexec/pcp", p)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// released returns the names of all files of a release for one processor.
func released(arch string) []string {
	rpmArch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
	names := []string{
		"SHA256SUMS",
		"pmcd-" + version + ".cdx.json",
		"pmcd-" + version + "-linux-" + arch + ".tar.gz",
		"pmcd-" + version + "-linux-" + arch + "-static.tar.gz",
	}
	for _, p := range packageNames {
		names = append(names, p+"_"+version+"_"+arch+".deb", p+"-"+version+"-1."+rpmArch+".rpm")
	}
	return slices.Sorted(slices.Values(names))
}
