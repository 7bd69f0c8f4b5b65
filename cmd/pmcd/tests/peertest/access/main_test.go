package access

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// inside is set in the environment of the test program that runs in a network
// and with a /etc/hosts of its own.
const inside = "PMCD_ACCESS_INSIDE"

// setup makes a host named vm, which is 127.0.0.1, with the further addresses
// 192.0.2.2 and fd00::2 and no name server. $0 is a directory; then the rest
// is run.
const setup = `set -e
ip link set lo up
echo 0 >/proc/sys/net/ipv6/conf/lo/disable_ipv6 || :
ip -6 addr replace ::1/128 dev lo
ip addr add 192.0.2.2/32 dev lo
ip -6 addr add fd00::2/128 dev lo nodad
printf '127.0.0.1 localhost\n127.0.0.1 vm\n' >"$0/hosts"
: >"$0/resolv.conf"
mount --bind "$0/hosts" /etc/hosts
mount --bind "$0/resolv.conf" /etc/resolv.conf
hostname vm
exec "$@"`

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run runs the tests, in a network of their own if that is possible.
func run(m *testing.M) int {
	defer peer.Finish()
	if os.Getenv(inside) != "" || os.Geteuid() != 0 || peer.Missing() != nil {
		return m.Run() // outside each test says why it cannot run
	}
	bin, err := peer.UnderTest()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "access")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("/bin/sh", append([]string{"-c", setup, dir, os.Args[0]}, os.Args[1:]...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"=1", "PMCD_UNDER_TEST="+bin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS}
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return 1
	}
	fmt.Fprintln(os.Stderr, "no network of our own:", err)
	return m.Run()
}

// require skips the test, or fails it if peers are required, unless it runs
// inside.
func require(t *testing.T) {
	t.Helper()
	peer.Require(t)
	if os.Getenv(inside) == "" {
		testutil.Missing(t, "needs root and a network of its own")
	}
}

// A daemon is one of the two that are compared.
type daemon struct {
	name string
	ours bool
}

var daemons = []daemon{{"C", false}, {"ours", true}}

func (d daemon) path(t *testing.T) string {
	t.Helper()
	if !d.ours {
		return peer.CPmcd
	}
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// config is the smallest configuration with these rules: the daemon's own
// agent and one metric. An argument of the daemon may stand in place of rules.
func config(rules string) peer.Config {
	c := peer.Config{
		Bare:   true,
		Agents: []string{"pmcd 2 dso pmcd_init /var/lib/pcp/pmdas/pmcd/pmda_pmcd.so"},
		PMNS:   "root { pmcd }\npmcd { seqnum 2:0:24 }\n",
	}
	if strings.HasPrefix(rules, "-") {
		c.Args = []string{rules}
	} else if rules != "" {
		c.Access = rules + "\n"
	}
	return c
}

func (d daemon) start(t *testing.T, c peer.Config) *peer.Daemon {
	t.Helper()
	return peer.StartT(t, d.path(t), c)
}
