package peertest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// A clientTarget is a pmcd, and PCP's clients for it.
type clientTarget struct {
	name, host string // host is for Go's client
	run        func(context.Context, peer.Client) (peer.Output, error)
	anonymous  func(string) string
	machine    *peer.Machine // on which it is, or nil
	options    pmapi.Options // of Go's client
}

// pairTargets are both daemons, over two transports.
func pairTargets(t *testing.T) (targets []clientTarget) {
	t.Helper()
	p := servers(t)
	for name, d := range map[string]*peer.Daemon{"C": p.C, "ours": p.Ours} {
		for _, tr := range []peer.Transport{peer.TCP4, peer.Unix} {
			targets = append(targets, clientTarget{name + " " + tr.String(), d.Host(tr),
				func(ctx context.Context, cl peer.Client) (peer.Output, error) { return d.Run(ctx, tr, cl) },
				func(s string) string { return d.Anonymous(tr, s) }, nil, pmapi.Options{}})
		}
	}
	return targets
}

// machineTargets are PCP 6.3.8 with the agent sample, with its own pmcd and with ours.
func machineTargets(t *testing.T) (targets []clientTarget) {
	t.Helper()
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"C 6.3.8": "", "ours with 6.3.8": path} {
		m := peer.BootRelease(t, peer.Trixie, path)
		const labels = `{"site":"there","deep":{"a":1,"b":"two"},"unit":"µm"}`
		if err := os.WriteFile(m.Path("/etc/pcp/labels/site.json"), []byte(labels), 0o644); err != nil {
			t.Fatal(err)
		}
		m.AddSample(t)
		m.Start(t)
		targets = append(targets, machineTarget(m, name, "unix:"+m.Path("/run/pcp/pmcd.socket"), "unix:", pmapi.Options{}))
	}
	return targets
}

// machineTarget is the pmcd of a machine: host is for Go's client, and there is for those on
// the machine.
func machineTarget(m *peer.Machine, name, host, there string, o pmapi.Options) clientTarget {
	return clientTarget{name, host,
		func(ctx context.Context, cl peer.Client) (peer.Output, error) {
			cl.Args = slices.Clone(cl.Args)
			for i, arg := range cl.Args {
				cl.Args[i] = strings.ReplaceAll(arg, "{host}", there)
			}
			return m.Run(ctx, "/", cl)
		},
		func(s string) string { return s }, m, o}
}

// startMachineProxy starts a pmproxy on a machine until the end of the test, and returns what
// gets a path of it.
func startMachineProxy(t *testing.T, m *peer.Machine) func(path string) string {
	t.Helper()
	if err := os.WriteFile(m.Path("/var/tmp/pmproxy.conf"), []byte(pmproxyConf), 0o644); err != nil {
		t.Fatal(err)
	}
	sh := func(command string) string {
		t.Helper()
		o, err := m.Run(context.Background(), "/", client("sh", "-c", command))
		if err != nil || o.Code != 0 {
			t.Fatalf("%v\n%s", err, o)
		}
		return strings.TrimSpace(o.Stdout)
	}
	pid := sh("pmproxy -f -A -U root -c /var/tmp/pmproxy.conf -l /var/tmp/pmproxy.log >/dev/null 2>&1 </dev/null & echo $!")
	// Its end is not tested: it crashes in some.
	t.Cleanup(func() { sh("kill -KILL " + pid) })
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", m.Path("/run/pcp/pmproxy.socket"))
	}}
	t.Cleanup(tr.CloseIdleConnections)
	get := func(path string) (text string, err error) {
		r, err := (&http.Client{Transport: tr}).Get("http://pmproxy" + path)
		if err != nil {
			return "", err
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err == nil && r.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", r.Status, b)
		}
		return string(b), err
	}
	var err error
	if !peer.Until(testutil.Hangs, func() bool { _, err = get("/pmapi/fetch?names=pmcd.version"); return err == nil }) {
		log, _ := os.ReadFile(m.Path("/var/tmp/pmproxy.log"))
		t.Fatalf("pmproxy: %v\n%s", err, log)
	}
	return func(path string) string {
		t.Helper()
		text, err := get(path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return text
	}
}
