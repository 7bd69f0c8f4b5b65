package peertest

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// A loginPair is a pair whose daemons have TLS and a configuration of SASL.
type loginPair struct {
	*peer.Pair
	dir string
	env []string // of clients
}

// startLoginPair starts a pair for logins. In conf, DIR is the directory of the database and
// of saslauthd's socket.
func startLoginPair(t *testing.T, conf string, args ...string) *loginPair {
	t.Helper()
	return startLoginPairWith(t, conf, peer.Config{Args: args})
}

// startLoginPairWith is startLoginPair with a configuration of the daemons.
func startLoginPairWith(t *testing.T, conf string, cfg peer.Config) *loginPair {
	t.Helper()
	testutil.NeedPeer(t, "saslpasswd2")
	p := &loginPair{dir: t.TempDir()}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(p.dir, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for user, password := range map[string]string{"root": "secret", "nobody": "a+b%c d&e=f", "carol": "secret"} {
		cmd := exec.Command("saslpasswd2", "-c", "-p", "-a", "pmcd", "-f", p.dir+"/sasldb2", user)
		cmd.Stdin = strings.NewReader(password)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("saslpasswd2: %v\n%s", err, out)
		}
	}
	write("sasl2/pmcd.conf", strings.ReplaceAll(conf, "DIR", p.dir))
	testutil.WriteCertificate(t, p.dir, "server", time.Now().AddDate(1, 0, 0))
	write("tls.conf", "tls-cert-file = "+p.dir+"/server.crt\ntls-key-file = "+p.dir+"/server.key\n")
	write("client.conf", "tls-verify-clients = false\n")
	p.env = []string{"PCP_CONSOLE=none", "PCP_TLSCONF_PATH=" + p.dir + "/client.conf"}
	cfg.Env = []string{"PCP_TLSCONF_PATH=" + p.dir + "/tls.conf", "PCP_SASL2_CONFIG_PATH=" + p.dir + "/sasl2"}
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	p.Pair = &peer.Pair{C: peer.StartT(t, peer.CPmcd, cfg), Ours: peer.StartT(t, path, cfg)}
	return p
}

// pminfo runs pminfo with a host specification.
func (p *loginPair) pminfo(host string) peer.Client {
	return peer.Client{Args: []string{"pminfo", "-h", host, "-fl", "sample.long.one", "pmcd.feature", "sample.string.hullo"}, Env: p.env}
}

const sasldb = "mech_list: plain login scram-sha-256\nsasldb_path: DIR/sasldb2\n"

// TestPeerLogins logs in by each mechanism, with TLS and without, with right and wrong
// passwords: clients print the same against both daemons.
func TestPeerLogins(t *testing.T) {
	for _, args := range [][]string{nil, {"-S"}} {
		p := startLoginPair(t, sasldb, args...)
		schemes := []string{"pcp", "pcps"}
		if args != nil {
			schemes = schemes[:1] // with -S and TLS, C pmcd may wait for one client for ever
		}
		for _, scheme := range schemes {
			for _, user := range []struct{ query, must string }{
				{"", ""},
				{"?user=root&pass=secret", `"userid":0`},
				{"?user=root&pass=secret&method=plain", `"userid":0`},
				{"?user=root&pass=secret&method=login", `"userid":0`},
				{"?user=root&pass=secret&method=scram-sha-256", `"userid":0`},
				{"?user=root&pass=wrong", ""},
				{"?user=root&pass=wrong&method=plain", ""},
				{"?user=root&pass=wrong&method=login", ""},
				{"?user=dave&pass=x&method=plain", ""},
				{"?user=root&pass=secret&method=scram-sha-1", ""},
				{"?user=nobody&pass=a%2Bb%25c%20d%26e%3Df&method=plain", `"userid":65534`},
				{"?user=root&pass=secret&container=none", ""},
			} {
				host := scheme + "://127.0.0.1:{port}" + user.query
				t.Run(strings.Join(args, "")+scheme+user.query, func(t *testing.T) {
					if args != nil && (strings.Contains(user.query, "pass=wrong&method=") || strings.Contains(user.query, "user=dave")) {
						p.denied(t, host)
						return
					}
					cmp := pminfo()
					cmp.Must = user.must
					p.Compare(t, peer.TCP4, p.pminfo(host), cmp)
				})
			}
		}
		t.Run(strings.Join(args, "")+"unix", func(t *testing.T) {
			p.Compare(t, peer.Unix, p.pminfo("unix://{dir}/sock"), pminfo())
			p.Compare(t, peer.Unix, p.pminfo("unix://{dir}/sock?user=root&pass=secret&method=plain"), pminfo())
		})
		// A name that the system does not know: 6.0.3 refuses it, we do as 7.x does.
		o, err := p.Ours.Run(t.Context(), peer.TCP4, p.pminfo("pcp://127.0.0.1:{port}?user=carol&pass=secret&method=plain"))
		if err != nil || strings.Contains(o.Stdout, "value 1") != (args == nil) || strings.Contains(o.Stdout, "userid") {
			t.Errorf("unknown to the system, with %q: %v\n%v", args, err, o)
		}
		if c, err := p.C.Run(t.Context(), peer.TCP4, p.pminfo("pcp://127.0.0.1:{port}?user=carol&pass=secret&method=plain")); err != nil || !strings.Contains(c.Stdout+c.Stderr, "No such process") {
			t.Errorf("C pmcd is not as expected: %v\n%v", err, c)
		}
		if args == nil { // otherwise C pmcd has not served all of them
			p.compareLogs(t)
		}
	}
}

// denied checks that a client whose login has failed is served nothing. C pmcd serves it.
func (p *loginPair) denied(t *testing.T, host string) {
	t.Helper()
	o, err := p.Ours.Run(t.Context(), peer.TCP4, p.pminfo(host))
	text := o.Stdout + o.Stderr
	if err != nil || !strings.Contains(text, "Authentication - ") || !strings.Contains(text, "No permission") || strings.Contains(text, "value") {
		t.Errorf("%v\n%v", err, o)
	}
}

// loginLines are the lines about logins that scripts look for.
var loginLines = regexp.MustCompile(`pmcd\(\d+\) (Info: Successful authentication for user ".*"|Alert: .*)`)

// compareLogs compares the kinds of lines about logins in the logs.
func (p *loginPair) compareLogs(t *testing.T) {
	t.Helper()
	lines := func(d *peer.Daemon) (all []string) {
		for _, m := range loginLines.FindAllStringSubmatch(d.Log(), -1) {
			text, _, _ := strings.Cut(m[1], " more like it in ")
			if !strings.HasPrefix(text, "Alert: Couldn't find mech ") { // ours does not ask libsasl2 for what was not offered
				all = append(all, strings.TrimRight(text, " (0123456789"))
			}
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	if c, ours := lines(p.C), lines(p.Ours); !slices.Equal(c, ours) {
		t.Errorf("the log of C pmcd has %q\nours has %q", c, ours)
	}
}

// TestPeerSaslauthd has passwords checked by a saslauthd.
func TestPeerSaslauthd(t *testing.T) {
	p := startLoginPair(t, "mech_list: plain login\npwcheck_method: saslauthd\nsaslauthd_path: DIR/mux\n")
	compare := func(what, must string) {
		for _, method := range []string{"plain", "login"} {
			t.Run(what+" "+method, func(t *testing.T) {
				cmp := pminfo()
				cmp.Must = must
				p.Compare(t, peer.TCP4, p.pminfo("pcp://127.0.0.1:{port}?user=root&pass="+what+"&method="+method), cmp)
			})
		}
	}
	compare("unreachable", "")
	l, err := net.Listen("unix", p.dir+"/mux")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(p.dir+"/mux", 0o777); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var f [4]string // user, password, service, realm
			for i := range f {
				var n [2]byte
				io.ReadFull(c, n[:])
				b := make([]byte, binary.BigEndian.Uint16(n[:]))
				io.ReadFull(c, b)
				f[i] = string(b)
			}
			reply := "NO"
			if f == [4]string{"root", "right", "PCP Collector", ""} {
				reply = "OK"
			}
			c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
			c.Close()
		}
	}()
	compare("right", `"userid":0`)
	compare("wrong", "")
}
