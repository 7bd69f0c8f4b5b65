package peer

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestPeerMachine(t *testing.T) {
	t.Parallel()
	m := StartMachine(t, CPmcd)
	for _, c := range []struct {
		line string
		code int
	}{
		{"pminfo -v pmcd.version", 0},
		{"touch here /etc/pcp/pmcd/machine /var/log/pcp/machine /usr/lib/pcp/pmdas/machine /run/machine /var/tmp/machine", 0},
		{"touch /usr/machine", 1},
		{"touch /tmp/machine", 1},
		{"touch /etc/machine", 1},
	} {
		o, err := m.Run(t.Context(), "/var/lib/pcp/pmns", Client{Args: strings.Fields(c.line)})
		if err != nil || o.Code != c.code {
			t.Errorf("%s: %v %s", c.line, err, o)
		}
	}
	if _, err := os.Stat(m.Path("/var/lib/pcp/pmns/here")); err != nil {
		t.Error(err)
	}
	for _, f := range []string{
		"/var/lib/pcp/pmns/here", "/etc/pcp/pmcd/machine", "/var/log/pcp/machine", "/usr/lib/pcp/pmdas/machine",
		"/run/machine", "/var/tmp/machine", "/tmp/machine", "/usr/machine",
	} {
		if _, err := os.Lstat(f); err == nil {
			t.Errorf("%s is on the real machine", f)
		}
	}
	isPmcd := func(p string) bool { return strings.HasPrefix(p, CPmcd+" -f ") }
	if ps := m.Processes(); !slices.ContainsFunc(ps, isPmcd) {
		t.Errorf("no pmcd in %q", ps)
	}
}

// Processes that outlive pmcd are noticed, and end with the machine.
func TestPeerMachineNoticesWhatIsLeft(t *testing.T) {
	t.Parallel()
	m := BootMachine(t, CPmcd)
	if err := m.start(); err != nil {
		t.Fatal(err)
	}
	o, err := m.Run(t.Context(), "/", Client{Args: []string{"sh", "-c", "sleep 1000 >/dev/null 2>&1 &"}})
	if err != nil || o.Code != 0 {
		t.Fatalf("%v %s", err, o)
	}
	if err := m.stop(); err == nil || !strings.Contains(err.Error(), "sleep 1000") {
		t.Errorf("got %v, want a complaint about the process that is left", err)
	}
	proc := m.Path("/proc")
	m.halt()
	if _, err := os.Stat(proc); err == nil {
		t.Error("the machine is still there")
	}
}
