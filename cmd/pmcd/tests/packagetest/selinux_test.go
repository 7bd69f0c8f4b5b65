package packagetest

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// The module for SELinux compiles and can be packed, as docs/installing.md says. Whether
// it is sufficient only an enforcing system could tell.
func TestSELinuxModule(t *testing.T) {
	testutil.NeedProgram(t, "checkmodule")
	testutil.NeedProgram(t, "semodule_package")
	source, err := filepath.Abs("../../../../etc/packaging/selinux/pmcd-go.te")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	command(t, dir, "checkmodule", "-M", "-m", "-o", "pmcd-go.mod", source)
	command(t, dir, "semodule_package", "-o", "pmcd-go.pp", "-m", "pmcd-go.mod")
}

// contexts are the patterns of PCP's policy and of those of distributions that match files in
// /usr/libexec/pcp: the last one that matches counts. Those with a true hold for regular files only.
var contexts = []struct {
	pattern string
	regular bool
	label   string
}{
	{"/usr/.*", false, "usr_t"},
	{"/usr/libexec(/.*)?", false, "bin_t"},
	{"/usr/libexec/pcp/bin/(pmcd|pmproxy|(pmie|pmlogger)_(check|daily|farm))", true, "another"},
	{"/usr/libexec/pcp/lib/(pmcd|pmproxy|pmie|pmlogger)", true, "another"},
}

// The links of agents and the program have the type that pcp_pmcd_t may follow and execute
// (corecmd_exec_bin): the kernel checks that of the program, after that of the link.
func TestSELinuxTypeOfAgents(t *testing.T) {
	bin, root := t.TempDir(), t.TempDir()
	for _, name := range []string{"plugins/pmda_simple.so", "pmdas/pmdas", "pmdas/pmdaopenmetrics"} {
		path := filepath.Join(bin, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("pmdas", filepath.Join(bin, "pmdas/pmdasimple")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pmcd-plugins", "pmcd-openmetrics"} {
		command(t, "../../../..", "etc/packaging/files.sh", "rpm", name, bin, root)
	}
	files, err := filepath.Glob(filepath.Join(root, "usr/libexec/pcp/pmdas/*"))
	if err != nil || len(files) != 3 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		path, err := filepath.EvalSymlinks(file) // what is executed
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{file, path} {
			fi, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			label := ""
			for _, c := range contexts {
				if regexp.MustCompile("^"+c.pattern+"$").MatchString(strings.TrimPrefix(path, root)) && (!c.regular || fi.Mode().IsRegular()) {
					label = c.label
				}
			}
			if label != "bin_t" {
				t.Errorf("%s has the type %s", path, label)
			}
		}
	}
}
