package peertest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

// attributeLine is what pmdasample logs of an attribute of a client, with its option for that.
var attributeLine = regexp.MustCompile(`pmdasample\(\d+\) Info: Attribute: ctx=\d+ (.*)`)

// TestPeerLoginAttributes compares what an agent in C is told of clients that log in.
func TestPeerLoginAttributes(t *testing.T) {
	agents, err := peer.StandardAgents()
	if err != nil {
		testutil.Missing(t, err)
	}
	for i, line := range agents {
		if strings.HasPrefix(line, "sample") {
			agents[i] = line + " -l {dir}/sample.log -D auth"
		}
	}
	p := startLoginPairWith(t, sasldb, peer.Config{Agents: agents})
	for _, host := range []string{
		"pcp://127.0.0.1:{port}",
		"pcp://127.0.0.1:{port}?user=root&pass=secret&method=plain",
		"pcps://127.0.0.1:{port}?user=nobody&pass=a%2Bb%25c%20d%26e%3Df&method=scram-sha-256",
		"pcp://127.0.0.1:{port}?user=root&pass=wrong&method=plain",
	} {
		t.Run(host, func(t *testing.T) {
			var attrs []string
			for _, d := range []*peer.Daemon{p.C, p.Ours} {
				path := filepath.Join(d.Dir, "sample.log")
				if err := os.Truncate(path, 0); err != nil {
					t.Fatal(err)
				}
				if _, err := d.Run(t.Context(), peer.TCP4, p.pminfo(host)); err != nil {
					t.Fatal(err)
				}
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				var list []string
				for _, m := range attributeLine.FindAllStringSubmatch(string(b), -1) {
					list = append(list, m[1])
				}
				attrs = append(attrs, strings.Join(list, " "))
			}
			if attrs[0] != attrs[1] {
				t.Errorf("C pmcd tells %q\nours tells %q", attrs[0], attrs[1])
			}
			if loggedIn := strings.Contains(host, "user=") && !strings.Contains(host, "wrong"); loggedIn != strings.Contains(attrs[0], "username=") {
				t.Errorf("C pmcd tells %q", attrs[0])
			}
		})
	}
}

// TestPeerLoginWithoutCertificate has a client of another host try to log in after pmcd has
// refused it because it does not use TLS. C pmcd serves it.
func TestPeerLoginWithoutCertificate(t *testing.T) {
	p := startLoginPair(t, sasldb, "-Q")
	for _, d := range []*peer.Daemon{p.C, p.Ours} {
		c, err := pdutest.Dial("tcp4", d.Host(peer.TCP4), "127.0.0.2") // only 127.0.0.1 is exempt
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ask := func(m pdu.Message) string {
			t.Helper()
			reply, err := c.Do(m)
			if err != nil {
				return err.Error()
			}
			if e, ok := reply.(*pdu.Error); ok {
				return e.Code.Name()
			}
			return reply.Type().String()
		}
		if _, err := c.Greeting(); err != nil {
			t.Fatal(err)
		}
		got := []string{
			ask(pdutest.Creds(0)),
			ask(pdutest.Creds(pdu.FeatureAuth)),
			ask(&pdu.DescReq{PMID: pdu.NewPMID(peer.DomainSample, 0, 2)}),
		}
		need := pdu.ErrnoNeedClientCert.Name()
		want := []string{need, need, pdu.ErrnoPermission.Name()}
		if d == p.C {
			want[2] = pdu.TypeDesc.String()
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", d.Path, got, want)
		}
	}
}
