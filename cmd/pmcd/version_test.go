package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
)

// All options for it print the same version. For C pmcd -V is an option that
// it does not know, and so the exit code is the same, 0.
func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"pmcd", "-V"}, {"pmcd", "--version"}, {"pmcd", "-fV"}} {
		cmd := exec.Command(pmcdtest.Self(t), args[1:]...)
		cmd.Args[0] = args[0]
		cmd.Env = append(os.Environ(), "PMCD_TEST_RUN=1", "PCP_CONF=/dev/null")
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		want := regexp.MustCompile(`^` + args[0] + ` \d+\.\d+\.\d+(\+git\.[0-9a-f]{12}(\.dirty)?)?, with the behaviour of PCP ` + regexp.QuoteMeta(pcpconf.Version) + `\n$`)
		if err != nil || !want.MatchString(stdout.String()) || stderr.Len() > 0 {
			t.Errorf("%q: %v\n%s%s", args, err, &stdout, &stderr)
		}
	}
}
