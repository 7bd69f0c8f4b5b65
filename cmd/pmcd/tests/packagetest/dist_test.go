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

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// noGo is a go command that only makes the files that it is to build, of a program in C.
const noGo = `#!/bin/sh
[ "$1" = build ] || exit 0
while [ "$1" != -o ]; do shift; done
out=$2 && shift 2
case $out in
*/) mkdir -p "$out" && for p; do cp /bin/true "$out${p##*/}"; done ;;
*) mkdir -p "$(dirname "$out")" && cp /bin/true "$out" ;;
esac
`

// programs makes a directory of scripts, for PATH.
func programs(t *testing.T, scripts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// committed makes a checkout whose files are a commit.
func committed(t *testing.T, dir string) {
	t.Helper()
	checkout(t, dir)
	command(t, dir, "git", "init", "-q")
	command(t, dir, "git", "add", ".")
	command(t, dir, "git", "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-qm", "test")
}

// A build between two releases has a version that is older than the next release, with the time of
// the commit. The checksums have all that was built, and nothing else.
func TestGitVersion(t *testing.T) {
	testutil.NeedProgram(t, "git")
	peer.NeedPackager(t)
	dir := filepath.Join(t.TempDir(), "checkout")
	committed(t, dir)
	sysroots, out := t.TempDir(), filepath.Join(dir, "out")
	if err := errors.Join(os.Mkdir(filepath.Join(sysroots, "amd64"), 0o755), os.Mkdir(out, 0o755)); err != nil {
		t.Fatal(err)
	}
	env := []string{"PMCD_SYSROOTS=" + sysroots, "COMPRESSION=gzip:1", "PATH=" + programs(t, map[string]string{
		"go": noGo, "x86_64-linux-gnu-gcc": "", "readelf": "#!/bin/sh\necho GLIBC_2.17\n"}) + ":" + os.Getenv("PATH")}
	const first, git, inPackages = "1.2.3", "1.2.3+git.0123456789ab", "1.2.3~git20010909014640.0123456789ab"
	for _, version := range []string{git, first} { // what the first one has made is there
		script(t, dir, env, "etc/packaging/dist.sh", version, out)
		script(t, dir, env, "etc/packaging/release.sh", "-a", "amd64", version, out)
		ofPackages := strings.Replace(version, git, inPackages, 1)
		want := []string{"pmcd-" + ofPackages + ".tar.gz", "pmcd-" + version + ".cdx.json", "pmcd-" + version + "-linux-amd64.tar.gz",
			"pmcd-" + version + "-linux-amd64-static.tar.gz"}
		for _, p := range packageNames {
			want = append(want, p+"_"+ofPackages+"_amd64.deb", p+"-"+ofPackages+"-1.x86_64.rpm")
		}
		var got []string
		for _, line := range strings.Split(strings.TrimSpace(command(t, out, "sha256sum", "-c", "SHA256SUMS")), "\n") {
			got = append(got, strings.TrimSuffix(line, ": OK"))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: checksums of\n%s\nwant\n%s", version, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		top := "pmcd-" + ofPackages
		text := command(t, out, "tar", "-xOzf", top+".tar.gz", top+"/debian/changelog", top+"/pmcd.spec")
		for _, want := range []string{"pmcd (" + ofPackages + "-1) ", "  Sun, 09 Sep 2001 01:46:40 +0000\n", "\nVersion:        " + ofPackages + "\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the source archive does not have %q", version, want)
			}
		}
	}
}

// The source archive has the same bytes twice. Without a network and without modules, its debian
// directory and its spec file build the packages that "make release" builds.
func TestDist(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.NeedCapability(t, unix.CAP_SYS_ADMIN) // for a network name space
	for _, program := range []string{"dpkg-buildpackage", "rpmbuild", "git"} {
		testutil.NeedProgram(t, program)
	}
	dir := filepath.Join(t.TempDir(), "checkout")
	committed(t, dir)
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
		path = programs(t, map[string]string{"go": noGo}) + ":" + path
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
			{"dpkg-deb -c FILE | awk '!/\\/$/ {print $1, $6 $7 $8}'", filepath.Join(dir, "..", deb), name + "_" + version + "_amd64.deb"},
			{"dpkg-deb -f FILE Depends Recommends Conflicts Breaks Replaces Provides Description", filepath.Join(dir, "..", deb), name + "_" + version + "_amd64.deb"},
			{"dpkg-deb --ctrl-tarfile FILE | tar -tf - | grep -E 'inst|rm'; true", filepath.Join(dir, "..", deb), name + "_" + version + "_amd64.deb"},
			{"rpm -qp --nosignature --qf '[%{filenames} %{filelinktos} %{filemodes:perms}\\n]' FILE | grep -v ' d' | sed 's/ l[rwx-]*$/ l/'", rpm, name + "-" + version + "-1.x86_64.rpm"},
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
