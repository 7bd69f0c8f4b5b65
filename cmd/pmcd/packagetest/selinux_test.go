package packagetest

import (
	"path/filepath"
	"testing"

	"github.com/gopcp/pmcd/agents/testutil"
)

// The module for SELinux compiles and can be packed, as docs/installing.md says. Whether
// it is sufficient only an enforcing system could tell.
func TestSELinuxModule(t *testing.T) {
	testutil.NeedProgram(t, "checkmodule")
	testutil.NeedProgram(t, "semodule_package")
	source, err := filepath.Abs("../../../etc/packaging/selinux/pmcd-go.te")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	command(t, dir, "checkmodule", "-M", "-m", "-o", "pmcd-go.mod", source)
	command(t, dir, "semodule_package", "-o", "pmcd-go.pp", "-m", "pmcd-go.mod")
}
