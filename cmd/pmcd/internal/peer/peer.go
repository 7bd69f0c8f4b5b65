// Package peer runs PCP's own programs in tests: PCP's pmcd or ours, each with
// everything of its own (port, socket, directories, log), and PCP's clients
// against them.
//
// The tests that use it compare what a client prints when it talks to PCP's
// pmcd with what it prints when it talks to ours. Nothing here looks at bytes
// on the wire: what counts is the output of the programs that people run.
//
// The programs come from Debian's packages of PCP 6.0.3; "make peers" installs
// them. Environment:
//
//	PMCD_REQUIRE_PEERS=1  a missing peer is a failure and not a reason to skip
//	PMCD_UNDER_TEST=PATH  test this program instead of building cmd/pmcd
//	PMCD_SHOW_PEERS=1     log what clients print, also when all is well
package peer

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// CPmcd is PCP's pmcd.
const CPmcd = "/usr/lib/pcp/bin/pmcd"

const (
	pmdaDir   = "/var/lib/pcp/pmdas"
	stockPMNS = "/var/lib/pcp/pmns/root"
	stockEtc  = "/etc/pcp"
	newhelp   = "/usr/lib/pcp/bin/newhelp"
)

// Missing says what keeps tests with PCP's programs from running here, or is
// nil.
func Missing() error {
	simple, err := SimplePMDA()
	if err != nil {
		return err
	}
	dso, err := SimpleDSO()
	if err != nil {
		return err
	}
	for _, name := range []string{"pmdatrivial", "pmda_trivial.so", "pmdatxmon", "txrecord"} {
		f, err := Built(name)
		if err == nil {
			_, err = os.Stat(f)
		}
		if err != nil {
			return fmt.Errorf("%w (run make peers)", err)
		}
	}
	for _, f := range []string{CPmcd, newhelp, stockPMNS, simple, dso,
		pmdaDir + "/sample/pmdasample", pmdaDir + "/linux/pmdalinux", "/usr/bin/pminfo"} {
		if _, err := os.Stat(f); err != nil {
			return fmt.Errorf("%w (run make peers)", err)
		}
	}
	return nil
}

// Require skips the test, or fails it if peers are required, when PCP's
// programs are not at hand.
func Require(tb testing.TB) {
	tb.Helper()
	if err := Missing(); err != nil {
		testutil.Missing(tb, "no PCP to test with: ", err)
	}
}

// ModuleRoot is the directory of go.mod. Tests run in the directory of their
// package, which is below it.
var ModuleRoot = sync.OnceValues(func() (string, error) {
	d, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", errors.New("peer: no go.mod above the working directory")
		}
	}
})

// NeedPackager is for a test that makes packages.
func NeedPackager(tb testing.TB) {
	tb.Helper()
	root, err := ModuleRoot()
	if err != nil {
		tb.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(root, "etc/packaging/nfpm.sh")).CombinedOutput(); err != nil {
		testutil.Missing(tb, "no nfpm: ", err, " ", string(out))
	}
}

// Built is the path of a program or DSO of the demonstration agents, which
// "make peers" builds: Debian ships them as sources only.
func Built(name string) (string, error) {
	root, err := ModuleRoot()
	return filepath.Join(root, ".peers", name), err
}

// SimplePMDA is the path of pmdasimple.
func SimplePMDA() (string, error) { return Built("pmdasimple") }

// SimpleDSO is the path of the same agent as a shared object.
func SimpleDSO() (string, error) { return Built("pmda_simple.so") }

var scratch struct {
	sync.Mutex
	dir string
}

// scratchDir is a directory for all that this test program makes. It is not
// t.TempDir, which others cannot enter: agents run as user pcp and log there.
// The name is short because a Unix socket's path has room for 107 bytes.
func scratchDir() (string, error) {
	scratch.Lock()
	defer scratch.Unlock()
	if scratch.dir == "" {
		d, err := os.MkdirTemp("", "peer")
		if err != nil {
			return "", err
		}
		if err := os.Chmod(d, 0o755); err != nil {
			return "", err
		}
		scratch.dir = d
	}
	return scratch.dir, nil
}

// Finish removes what was built and left for the whole test program. TestMain
// of each package that uses peer calls it at the end.
func Finish() {
	scratch.Lock()
	defer scratch.Unlock()
	if scratch.dir != "" {
		os.RemoveAll(scratch.dir)
		scratch.dir = ""
	}
}
