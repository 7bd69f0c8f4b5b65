// Package tls tests pmcd with clients of PCP that use TLS, beside PCP's pmcd.
package tls

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

func TestMain(m *testing.M) {
	code := m.Run()
	peer.Finish()
	os.Exit(code)
}

// start starts PCP's pmcd and ours with the certificate named server.
func start(t *testing.T, certs *authority, args ...string) *peer.Pair {
	t.Helper()
	return startWith(t, certs, certs.conf("server"), args...)
}

// startWith is start with a tls.conf.
func startWith(t *testing.T, certs *authority, text string, args ...string) *peer.Pair {
	t.Helper()
	peer.Require(t)
	conf := filepath.Join(certs.dir, "tls.conf")
	certs.write(t, "tls.conf", text)
	ours, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	c := peer.Config{Args: args, Env: []string{"PCP_TLSCONF_PATH=" + conf}}
	return &peer.Pair{C: peer.StartT(t, peer.CPmcd, c), Ours: peer.StartT(t, ours, c)}
}

// conf returns a tls.conf with a certificate.
func (a *authority) conf(name string) string {
	return fmt.Sprintf("tls-ca-cert-file = %[1]s/ca.crt\ntls-cert-file = %[1]s/%[2]s.crt\ntls-key-file = %[1]s/%[2]s.key\n", a.dir, name)
}
