package packagetest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/testutil"
)

// noGo is a go command that only makes the files that it is to make, of a program in C.
const noGo = `#!/bin/sh
while [ "$1" != -o ]; do shift; done
out=$2 && shift 2
case $out in
*/) mkdir -p "$out" && for p; do cp /bin/true "$out${p##*/}"; done ;;
*) mkdir -p "$(dirname "$out")" && cp /bin/true "$out" ;;
esac
`

// The source archive has the same bytes twice. Without a network and without modules, its debian
// directory and its spec file build the packages that "make release" builds.
func TestDist(t *testing.T) {
	testutil.NeedRoot(t) // for a network name space
	for _, program := range []string{"dpkg-buildpackage", "rpmbuild", "git"} {
		testutil.NeedProgram(t, program)
	}
	dir := filepath.Join(t.TempDir(), "checkout")
	checkout(t, dir)
	command(t, dir, "git", "init", "-q")
	command(t, dir, "git", "add", ".")
	command(t, dir, "git", "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-qm", "test")
	var sums [2]map[string]string
	for i := range sums {
		out := filepath.Join(t.TempDir(), "out")
		script(t, dir, nil, "etc/packaging/dist.sh", version, out)
		sums[i] = sumsOf(t, out)
		dir := filepath.Join(dir, "..", "dist")
		if err := errors.Join(os.RemoveAll(dir), os.Rename(out, dir)); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, sums)
	archive := filepath.Join(dir, "../dist/pmcd-"+version+".tar.gz")
	unpack(t, archive, filepath.Join(dir, ".."))
	top := filepath.Join(dir, "../pmcd-"+version)

	path, cache := os.Getenv("PATH"), filepath.Join(t.TempDir(), "cache")
	if os.Getenv("PMCD_LONG") == "" { // which takes ten minutes
		bin := t.TempDir()
		if err := os.WriteFile(filepath.Join(bin, "go"), []byte(noGo), 0o755); err != nil {
			t.Fatal(err)
		}
		path = bin + ":" + path
	}
	offline := func(args ...string) {
		t.Helper()
		cmd := exec.Command("unshare", append([]string{"-n"}, args...)...)
		cmd.Dir = top
		cmd.Env = append(os.Environ(), "PATH="+path, "GOCACHE="+cache, "GOMODCACHE="+t.TempDir(), "GOPROXY=off", "GOFLAGS=")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, text)
		}
	}
	offline("dpkg-buildpackage", "-d", "-us", "-uc", "-b")
	rpms := filepath.Join(dir, "../rpm")
	offline("rpmbuild", "-bb", "--nodeps", "--define", "_topdir "+rpms, "--define", "_sourcedir "+filepath.Dir(archive), "pmcd.spec")

	// With what "make release" makes of the same programs they have files and relations in common.
	released := filepath.Join(dir, "out")
	script(t, dir, nil, "etc/packaging/packages.sh", version, "amd64", filepath.Join(top, "bin"), released)
	for _, name := range packageNames {
		deb, rpm := name+"_"+version+"-1_amd64.deb", filepath.Join(rpms, "RPMS/x86_64", name+"-"+version+"-1.x86_64.rpm")
		for _, c := range []struct{ query, built, want string }{
			{"dpkg-deb -c FILE | awk '!/\\/$/ {print $1, $6}'", filepath.Join(dir, "..", deb), name + "_" + version + "_amd64.deb"},
			{"dpkg-deb -f FILE Depends Recommends Conflicts Provides Description", filepath.Join(dir, "..", deb), name + "_" + version + "_amd64.deb"},
			{"dpkg-deb --ctrl-tarfile FILE | tar -tf - | grep -E 'inst|rm'; true", filepath.Join(dir, "..", deb), name + "_" + version + "_amd64.deb"},
			{"rpm -qp --nosignature --qf '[%{filenames} %{filemodes:perms}\\n]' FILE | grep -v ' d'", rpm, name + "-" + version + "-1.x86_64.rpm"},
			{"rpm -qp --nosignature --conflicts --recommends --provides FILE", rpm, name + "-" + version + "-1.x86_64.rpm"},
			{"rpm -qp --nosignature --scripts FILE | grep -v scriptlet; true", rpm, name + "-" + version + "-1.x86_64.rpm"},
		} {
			got := relations(command(t, "/", "sh", "-c", strings.ReplaceAll(c.query, " FILE", " "+c.built)))
			want := relations(command(t, "/", "sh", "-c", strings.ReplaceAll(c.query, " FILE", " "+filepath.Join(released, c.want))))
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s:\n%s\nand of make release:\n%s", filepath.Base(c.built), c.query, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
}

// relations returns the lines of text, sorted, without what may differ: the C library that the
// programs were linked with, and the revision of a package.
func relations(text string) []string {
	text = regexp.MustCompile(`libc6 \(>= [0-9.]+\)(, )?|(\(x86-64\)|-1)\b|\(x86-64\)`).ReplaceAllString(text, "")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(lines)
	return slices.Compact(lines)
}
