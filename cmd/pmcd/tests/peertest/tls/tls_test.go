package tls

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

// shell is a client that is a command line of the shell.
func shell(line string, env ...string) peer.Client {
	return peer.Client{Args: []string{"/bin/sh", "-c", line}, Env: env}
}

// tlsConf is an environment with a tls.conf of a client.
func tlsConf(certs *authority, name string) string {
	return "PCP_TLSCONF_PATH=" + filepath.Join(certs.dir, name)
}

// any is for clients of which some fail: both sides have the same exit status.
var any = peer.Comparison{Status: peer.AnyStatus, Split: peer.Lines}

// TestTransports compares what clients see in TLS connections, with what they are asked
// for in each way.
func TestTransports(t *testing.T) {
	certs := newAuthority(t)
	p := start(t, certs)
	ca := "tls-ca-cert-file = " + certs.dir + "/ca.crt\ntls-verify-clients = true\n"
	certs.write(t, "verify.conf", ca)
	certs.write(t, "verify2.conf", "tls-ca-cert-file = "+certs.dir+"/ca2.crt\ntls-verify-clients = yes\n")
	certs.write(t, "none.conf", "tls-cert-file = /dev/null\ntls-key-file = /dev/null\n")
	const all = "pminfo -h pcps://127.0.0.1:{port} -dm sample simple hinv" // help texts differ
	for _, tt := range []struct {
		name, line string
		env        []string
		must       string
	}{
		{"pminfo", all, nil, "sample.bin"},
		{"values", "pminfo -h pcps://127.0.0.1:{port} -f sample.bin sample.string hinv.ncpu no.such", nil, "sample.bin"},
		{"large reply", "pminfo -h pcps://127.0.0.1:{port} -f sample.aggregate sample.many proc.nprocs", nil, "sample"},
		{"Unix socket", "pminfo -h {host} -f hinv.ncpu", []string{"PCP_SECURE_SOCKETS=1"}, "hinv.ncpu"},
		{"pmval", "pmval -h pcps://127.0.0.1:{port} -s 3 -t 20msec sample.bin", nil, "sample.bin"},
		{"pmprobe", "pmprobe -h pcps://127.0.0.1:{port} -v sample.bin sample.long", nil, "sample.bin"},
		{"pmstore", "pmstore -h pcps://127.0.0.1:{port} sample.long.write_me 4", nil, "write_me"},
		{"relaxed", "pminfo -h 'pcps://127.0.0.1:{port}?secure=relaxed' -f hinv.ncpu", nil, "hinv.ncpu"},
		{"verified", all, []string{tlsConf(certs, "verify.conf")}, "sample.bin"},
		{"another authority", all, []string{tlsConf(certs, "verify2.conf")}, ""},
		{"no client certificate in the file", all, []string{tlsConf(certs, "none.conf")}, ""},
		{"no tls.conf", all, []string{"PCP_TLSCONF_PATH=/dev/null"}, "sample.bin"},
		{"features", "pminfo -h pcps://127.0.0.1:{port} -f pmcd.feature.secure pmcd.feature.client_cert_required", nil, "value 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmp := any
			cmp.Must = tt.must
			tr := peer.TCP4
			if tt.name == "Unix socket" {
				tr = peer.Unix
			}
			p.Compare(t, tr, shell(tt.line, tt.env...), cmp)
		})
	}
	for _, value := range []string{"", "1", "enforce", "relaxed", "yes", "0"} {
		t.Run("PCP_SECURE_SOCKETS="+value, func(t *testing.T) {
			p.Compare(t, peer.TCP4, shell("pminfo -h {host} -f hinv.ncpu; pminfo -D auth,context -h {host} -f hinv.ncpu 2>&1 | grep -ci tls",
				"PCP_SECURE_SOCKETS="+value), any)
		})
	}
	t.Run("identical to clear text", func(t *testing.T) {
		p.Compare(t, peer.TCP4, shell("pminfo -h pcps://127.0.0.1:{port} -dmtT sample simple hinv >a; pminfo -h {host} -dmtT sample simple hinv >b; cmp a b && echo same"),
			peer.Comparison{Split: peer.Lines})
	})
}

// accepted is the verdict on a certificate of a client.
const accepted = "accepted"

// prelude connects to a pmcd and asks for TLS. The handshake is the next thing that it expects.
func prelude(t *testing.T, d *peer.Daemon) net.Conn {
	t.Helper()
	c, err := pdutest.Dial("tcp4", d.Host(peer.TCP4), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Handshake(pdu.FeatureSecure | pdu.FeatureSecureAck); err != nil {
		t.Fatal(err)
	}
	m, err := c.Next()
	if ack, ok := m.(*pdu.Error); err != nil || !ok || ack.Code != 0 {
		t.Fatalf("acknowledgement %+v, %v", m, err)
	}
	return c.Conn
}

// verdict shows pmcd the certificate name, or none if there is no such file, and returns what
// the client reads: accepted, or an error.
func verdict(t *testing.T, d *peer.Daemon, certs *authority, name string, cfg *tls.Config) string {
	t.Helper()
	conn := prelude(t, d)
	defer conn.Close()
	cfg.InsecureSkipVerify = true
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(certs.dir+"/"+name+".crt", certs.dir+"/"+name+".key")
		if os.IsNotExist(err) {
			return new(tls.Certificate), nil
		}
		return &c, err
	}
	s := tls.Client(conn, cfg)
	if err := s.Handshake(); err != nil {
		return err.Error()
	}
	if _, err := pdutest.New(s).Do(&pdu.DescReq{PMID: pdu.NewPMID(2, 0, 2)}); err != nil {
		return err.Error()
	}
	return accepted
}

// only is a configuration for a version of TLS.
func only(version uint16) *tls.Config { return &tls.Config{MinVersion: version, MaxVersion: version} }

// TestClientCertificates compares which certificates of clients are accepted.
func TestClientCertificates(t *testing.T) {
	certs := newAuthority(t)
	p := start(t, certs)
	required := start(t, certs, "-Q")
	const other = "-CA ca2.crt -CAkey ca2.key -days 2"
	certs.issue(t, "mid", "rsa:2048", "basicConstraints=CA:TRUE\n")
	for _, tt := range []struct {
		name, key, extensions string
		options               []string
	}{
		{"plain", "rsa:2048", "", nil},
		{"elliptic", "ec", "", nil},
		{"ns-client", "rsa:2048", "nsCertType=client\n", nil},
		{"ns-both", "rsa:2048", "nsCertType=client,server\n", nil},
		{"ns-server", "rsa:2048", "nsCertType=server\n", nil},
		{"eku-client", "rsa:2048", "extendedKeyUsage=clientAuth\n", nil},
		{"eku-server", "rsa:2048", "extendedKeyUsage=serverAuth\n", nil},
		{"ku-sign", "rsa:2048", "keyUsage=digitalSignature\n", nil},
		{"ku-ca", "rsa:2048", "keyUsage=keyCertSign,cRLSign\n", nil},
		{"ku-encipher", "rsa:2048", "keyUsage=keyEncipherment\n", nil},
		{"other-ca", "rsa:2048", "", []string{other}},
		{"expired", "rsa:2048", "", []string{"-CA ca.crt -CAkey ca.key -days -1"}},
		{"rsa-1024", "rsa:1024", "", nil},
		{"sha-1", "rsa:2048", "", []string{"-sha1 -CA ca.crt -CAkey ca.key -days 2"}},
		{"chain", "rsa:2048", "", []string{"-CA mid.crt -CAkey mid.key -days 2"}},
		{"no-chain", "rsa:2048", "", []string{"-CA mid.crt -CAkey mid.key -days 2"}},
	} {
		certs.issue(t, tt.name, tt.key, tt.extensions, tt.options...)
		certs.write(t, tt.name+".conf", certs.conf(tt.name))
	}
	leaf, _ := os.ReadFile(certs.dir + "/chain.crt")
	mid, _ := os.ReadFile(certs.dir + "/mid.crt")
	certs.write(t, "chain.crt", string(leaf)+string(mid))
	certs.write(t, "ca.conf", certs.conf("ca"))
	certs.write(t, "ca2.conf", certs.conf("ca2"))
	// With the default security level a client of OpenSSL does not use a key of
	// 1024 bits, or a signature with SHA-1, itself.
	for _, name := range []string{"plain", "elliptic", "ns-client", "ns-both", "ns-server", "eku-client", "eku-server",
		"ku-sign", "ku-ca", "ku-encipher", "other-ca", "expired", "rsa-1024", "sha-1", "chain", "no-chain", "ca", "ca2", "none"} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(name+" "+tls.VersionName(version), func(t *testing.T) {
				for _, pair := range []*peer.Pair{p, required} {
					var verdicts []string
					for _, d := range []*peer.Daemon{pair.C, pair.Ours} {
						verdicts = append(verdicts, verdict(t, d, certs, name, only(version)))
					}
					t.Logf("required %t: C %s, ours %s", pair == required, verdicts[0], verdicts[1])
					if (verdicts[0] == accepted) != (verdicts[1] == accepted) {
						t.Errorf("required %t: C %s, ours %s", pair == required, verdicts[0], verdicts[1])
					}
				}
			})
		}
		t.Run(name+" pminfo", func(t *testing.T) {
			env := tlsConf(certs, name+".conf")
			for _, pair := range []*peer.Pair{p, required} {
				pair.Compare(t, peer.TCP4, shell("pminfo -h pcps://127.0.0.1:{port} -f hinv.ncpu", env), any)
			}
		})
	}
	t.Run("exempt", func(t *testing.T) {
		for _, line := range []string{"pminfo -h localhost:{port} -f hinv.ncpu", "pminfo -h unix://{dir}/sock -f hinv.ncpu", "pminfo -h {host} -f hinv.ncpu"} {
			required.Compare(t, peer.TCP4, shell(line), any)
		}
	})
}

// TestNoAuthority compares what pmcd does with certificates of clients if tls.conf names no
// authority. Those of the system do not count.
func TestNoAuthority(t *testing.T) {
	certs := newAuthority(t)
	certs.issue(t, "plain", "rsa:2048", "")
	conf := fmt.Sprintf("tls-cert-file = %[1]s/server.crt\ntls-key-file = %[1]s/server.key\n", certs.dir)
	for _, args := range [][]string{nil, {"-Q"}} {
		p := startWith(t, certs, conf, args...)
		for _, name := range []string{"none", "plain", "server", "ca"} {
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				c, ours := verdict(t, p.C, certs, name, only(version)), verdict(t, p.Ours, certs, name, only(version))
				if (c == accepted) != (ours == accepted) || (ours == accepted) != (name == "none" && args == nil) {
					t.Errorf("%q, certificate %s, %s: C %s, ours %s", args, name, tls.VersionName(version), c, ours)
				}
			}
		}
	}
}

// TestPrograms compares what clients see in TLS connections through a pmproxy, and
// what loggers and inference engines do.
func TestPrograms(t *testing.T) {
	certs := newAuthority(t)
	p := start(t, certs)
	port, err := peer.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	conf := "[pmproxy]\npcp.enabled = true\nhttp.enabled = false\nredis.enabled = false\n[discover]\nenabled = false\n[pmseries]\nenabled = false\n"
	path := filepath.Join(p.C.Dir, "pmproxy.conf")
	if err := os.WriteFile(path, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	sock := filepath.Join(p.C.Dir, "run", "pmproxy.socket")
	p.C.Background(t, peer.Client{Args: []string{"pmproxy", "-f", "-A", "-U", "root", "-c", path, "-p", strconv.Itoa(port), "-s", sock, "-l", "-"}}, func() error {
		c, err := net.Dial("tcp4", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			c.Close()
		}
		return err
	})
	proxy := []string{"PMPROXY_HOST=127.0.0.1", "PMPROXY_PORT=" + strconv.Itoa(port)}
	for _, tt := range []struct {
		name, line string
		env        []string
		must       string
	}{
		{"pmproxy", "pminfo -h pcps://127.0.0.1:{port} -dm sample hinv", proxy, "sample.bin"},
		{"pmproxy, no tls.conf", "pminfo -h pcps://127.0.0.1:{port} -f hinv.ncpu", append(proxy, "PCP_TLSCONF_PATH=/dev/null"), "hinv.ncpu"},
		{"pmlogger", `rm -rf arch; mkdir arch; echo 'log mandatory on 50 msec { sample.bin hinv.ncpu }' >arch/conf
pmlogger -h pcps://127.0.0.1:{port} -c arch/conf -l arch/log -s 3 arch/a; echo $?; pminfo -a arch/a | sort; pmprobe -a arch/a -v hinv.ncpu sample.bin`, nil, "sample.bin"},
		{"pmie", `echo 'x = sample.long.ten;' | pmie -h pcps://127.0.0.1:{port} -v -t 50msec -T 120msec 2>&1`, nil, "10"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.Compare(t, peer.TCP4, shell(tt.line, tt.env...), peer.Comparison{Status: peer.AnyStatus, Split: peer.Lines, Must: tt.must})
		})
	}
}
