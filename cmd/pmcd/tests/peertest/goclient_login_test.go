package peertest

import (
	"crypto/tls"
	"errors"
	"strconv"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// TestGoClientLogins logs in with package pmapi by each mechanism, with TLS and without, with
// right and wrong passwords.
func TestGoClientLogins(t *testing.T) {
	p := startLoginPair(t, sasldb)
	const badAuth = pdu.ErrnoNYI - 13
	for name, d := range map[string]*peer.Daemon{"C": p.C, "ours": p.Ours} {
		at := "127.0.0.1:" + strconv.Itoa(d.Port)
		for _, scheme := range []string{"pcp", "pcps"} {
			for _, method := range []string{"scram-sha-256", "plain", "login", ""} {
				for password, want := range map[string]error{"a%2Bb%25c%20d%26e%3Df": nil, "wrong": badAuth} {
					t.Run(name+" "+scheme+" "+method+" "+password, func(t *testing.T) {
						host := scheme + "://" + at + "?username=nobody&password=" + password
						if method != "" {
							host += "&method=" + method
						}
						c, err := pmapi.Dial(t.Context(), host, pmapi.Options{AnyCertificate: true})
						if !errors.Is(err, want) {
							t.Fatalf("%v, want %v", err, want)
						}
						if err == nil {
							defer c.Close()
							isNobody(t, c)
						}
					})
				}
			}
		}
		// The certificate is its own CA, and has no name of a host.
		var bad *tls.CertificateVerificationError
		if _, err := pmapi.Dial(t.Context(), "pcps://"+at, pmapi.Options{}); !errors.As(err, &bad) {
			t.Errorf("%s: the certificate is accepted: %v", name, err)
		}
	}
}

// isNobody fails unless pmcd knows the client as the user nobody.
func isNobody(t *testing.T, c *pmapi.Client) {
	t.Helper()
	sets, err := c.LabelsAt(t.Context(), pmapi.LabelContext, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sets {
		for _, l := range s.Labels {
			if l.Name == "userid" && l.Value == "65534" {
				return
			}
		}
	}
	t.Errorf("pmcd does not know the client as nobody: %v", sets)
}

// TestGoClientProxy goes through PCP's pmproxy.
func TestGoClientProxy(t *testing.T) {
	p := servers(t)
	port, _ := startProxy(t, p.C)
	for name, d := range map[string]*peer.Daemon{"C": p.C, "ours": p.Ours} {
		c := goClient(t, "127.0.0.1:"+strconv.Itoa(d.Port)+"@127.0.0.1:"+strconv.Itoa(port), pmapi.Options{})
		ids, err := c.Lookup(t.Context(), "sample.long.one", "sample.long.ten")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var r pmapi.Result
		if err := c.Fetch(t.Context(), ids, &r); err != nil || r.Sets[1].Values[0].Word != 10 {
			t.Errorf("%s: %v, %v", name, r.Sets, err)
		}
	}
}
