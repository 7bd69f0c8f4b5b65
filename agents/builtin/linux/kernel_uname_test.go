package linux

import (
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

func TestDistro(t *testing.T) {
	for _, tt := range []struct{ file, text, want string }{
		{"debian_version", "bookworm/sid\n", "Debian bookworm/sid"},
		{"debian_version", "", "?"},
		{"lsb-release", "DISTRIB_ID=Arch\nx\n", "Arch"},
		{"lsb-release", "DISTRIB_ID = Arch", "Arch"},
		{"amazon-linux-release", "Amazon Linux 2\nx\n", "Amazon Linux 2"},
		{"os-release", "NAME=x\n", "?"},
	} {
		root := pmdatest.Tree(t, map[string]string{"etc/" + tt.file: tt.text})
		newHarness(t, Options{Root: root}).Want(map[string]string{"kernel.uname.distro": tt.want})
	}
}
