package peer

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// Releases are the releases of Debian whose PCP is a peer as a Machine: each has
// a root directory that etc/peers-root.sh makes. "make peers" makes the root of
// Trixie.
const (
	Bookworm = "bookworm" // PCP 6.0.3
	Trixie   = "trixie"   // PCP 6.3.8

	// WithServers is what is behind the name of a release whose root has the
	// servers, too, that agents report about.
	WithServers = "-servers"
)

//go:embed release.sh
var releaseScript string

// ReleaseRoot is the root directory of a release, or an error if it was not
// made.
func ReleaseRoot(release string) (string, error) {
	base := os.Getenv("PMCD_PEER_ROOTS")
	if base == "" {
		base = "/var/cache/pmcd-peers"
	}
	root := filepath.Join(base, release)
	if _, err := os.Stat(filepath.Join(root, "peer")); err != nil {
		return "", fmt.Errorf("no root of %s: %w (run make peers)", release, err)
	}
	return root, nil
}

// RequireRelease returns the root directory of a release. It skips the test, or
// fails it if peers are required, if there is none.
func RequireRelease(tb testing.TB, release string) string {
	tb.Helper()
	root, err := ReleaseRoot(release)
	if err != nil {
		testutil.Missing(tb, err)
	}
	return root
}

// BootRelease makes a machine of a release on which pmcd does not run yet. An
// empty path stands for the release's own pmcd.
func BootRelease(tb testing.TB, release, path string) *Machine {
	tb.Helper()
	m := &Machine{script: releaseScript, args: []string{path, RequireRelease(tb, release)}}
	m.bootT(tb)
	return m
}

// sampleScript adds the agent sample to the configuration. Its Install would need a running
// pmcd.
const sampleScript = `set -e
cd /var/lib/pcp/pmdas/sample
sed 's/^@ SAMPLE[.]/@ 29./' help | newhelp -n root -o help || [ -e help.dir ]
sed 's/SAMPLE:/29:/' pmns >/var/tmp/sample
pmnsadd -d -n /var/lib/pcp/pmns/root /var/tmp/sample
sed -i '/^\[access\]/i sample 29 pipe binary /var/lib/pcp/pmdas/sample/pmdasample -d 29' /etc/pcp/pmcd/pmcd.conf`

// AddSample adds the agent sample to a machine of a release on which pmcd does not run yet.
func (m *Machine) AddSample(tb testing.TB) {
	tb.Helper()
	o, err := m.Run(tb.Context(), "/", Client{Args: []string{"sh", "-c", sampleScript}})
	if err != nil || o.Code != 0 {
		tb.Fatalf("%v\n%s", err, o)
	}
}
