package tlspolicy

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pmcdconf/tlsconf"
)

// TestLoad has configurations, and the error or the warnings for them. The errors begin as
// in C pmcd.
func TestLoad(t *testing.T) {
	p256 := testutil.ECKey(t, elliptic.P256())
	rsa2048 := rsaKey(t, 2048)
	ca := testutil.Issue(t, nil, rsa2048, testutil.Authority("CA"))
	intermediate := testutil.Issue(t, ca, p256, testutil.Authority("intermediate"))
	server := testutil.Issue(t, intermediate, rsa2048, testutil.Named("server"))
	sha1 := testutil.Named("sha1")
	sha1.SignatureAlgorithm = x509.SHA1WithRSA
	p224 := testutil.ECKey(t, elliptic.P224())
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ecDER, err := x509.MarshalECPrivateKey(p256)
	if err != nil {
		t.Fatal(err)
	}
	big := ""
	for i := range 40 { // with a name of 2000 bytes each
		big += testutil.Issue(t, nil, p256, testutil.Authority(strings.Repeat(string(rune('a'+i%26)), 2000))).PEM()
	}
	dir := testutil.WriteFiles(t, map[string]string{
		"cert": server.PEM(), "key": testutil.KeyPEM(t, rsa2048), "both": testutil.KeyPEM(t, rsa2048) + "text\n" + server.PEM(),
		"root":    testutil.Issue(t, nil, rsa2048, testutil.Named("self-signed")).PEM(),
		"leaf":    testutil.PEM("X509 CERTIFICATE", server.Cert.Raw),
		"pkcs1":   testutil.PEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsa2048)),
		"ec.cert": testutil.Issue(t, ca, p256, testutil.Named("ec")).PEM(), "ec.key": testutil.PEM("EC PARAMETERS", []byte("x")) + testutil.PEM("EC PRIVATE KEY", ecDER),
		"ed.cert": testutil.Issue(t, ca, ed, testutil.Named("ed")).PEM(), "ed.key": testutil.KeyPEM(t, ed),
		"224.cert": testutil.Issue(t, ca, p224, testutil.Named("p224")).PEM(), "224.key": testutil.KeyPEM(t, p224),
		"1024.cert":   testutil.Issue(t, ca, rsaKey(t, 1024), testutil.Named("weak")).PEM(),
		"sha1.cert":   testutil.Issue(t, ca, rsa2048, sha1).PEM(),
		"sha1.root":   testutil.Issue(t, nil, rsa2048, sha1).PEM(),
		"weak.chain":  testutil.Issue(t, testutil.Issue(t, ca, rsaKey(t, 1024), testutil.Authority("weak")), rsa2048, testutil.Named("server")).PEM(),
		"wrong.chain": server.PEM() + testutil.Issue(t, ca, p256, testutil.Named("x")).PEM(),
		"encrypted":   testutil.PEM("ENCRYPTED PRIVATE KEY", []byte("x")), "old.encrypted": "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n",
		"bad.key": testutil.PEM("PRIVATE KEY", []byte("x")), "bad.cert": testutil.PEM("CERTIFICATE", []byte("x")), "text": "text\n", "empty": "",
		"ca": ca.PEM(), "cas": ca.PEM() + testutil.PEM("CERTIFICATE", []byte("x")) + intermediate.PEM(), "big": big,
		"dir/0a1b2c3d.0": ca.PEM(), "dir/ca.pem": "text", "unhashed/ca.pem": ca.PEM(), "baddir/0a1b2c3d.0": "text",
		"open.key": testutil.KeyPEM(t, rsa2048),
	})
	if err := os.Chmod(filepath.Join(dir, "open.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	const cert, key = "tls-cert-file = @/cert\n", "tls-key-file = @/key\n"
	const cannotCert, cannotKey, cannotCA = "Cannot load certificate chain from @/", "Cannot load private key from @/", "Cannot load the client CA list from @/"
	for _, tt := range []struct {
		name, conf string
		want       string   // the error; "" if there is none
		warnings   []string // a part of each
	}{
		{"certificate and key", cert + key, "", nil},
		{"both in one file", "tls-cert-file=@/both\ntls-key-file=@/both\n", "", nil},
		{"self-signed", "tls-cert-file=@/root\n" + key, "", nil},
		{"other PEM types", "tls-cert-file=@/leaf\ntls-key-file=@/pkcs1\n", "", nil},
		{"EC", "tls-cert-file=@/ec.cert\ntls-key-file=@/ec.key\n", "", nil},
		{"Ed25519", "tls-cert-file=@/ed.cert\ntls-key-file=@/ed.key\n", "", nil},
		{"self-signed with SHA-1", "tls-cert-file=@/sha1.root\n" + key, "", nil},
		{"no key", cert, "no private key found: tls-cert-file is set, and tls-key-file is not (tls.conf:1)", nil},
		{"no certificate file", "\ntls-cert-file=@/none\n" + key, cannotCert + "none: no such file or directory (tls.conf:2)", nil},
		{"a directory", "tls-cert-file=@\n" + key, "Cannot load certificate chain from @: not a regular file (tls.conf:1)", nil},
		{"empty certificate", "tls-cert-file=@/empty\n" + key, cannotCert + "empty: the file has no certificate in PEM form (-----BEGIN ...) (tls.conf:1)", nil},
		{"key as certificate", "tls-cert-file=@/key\n" + key, cannotCert + "key: the file has no certificate in PEM form (-----BEGIN ...) (tls.conf:1)", nil},
		{"damaged certificate", "tls-cert-file=@/bad.cert\n" + key, cannotCert + "bad.cert: certificate 1: x509: malformed certificate (tls.conf:1)", nil},
		{"RSA 1024", "tls-cert-file=@/1024.cert\n" + key, cannotCert + "1024.cert: certificate 1 (CN=weak): its RSA key has 1024 bits; 2048 or more are required (tls.conf:1)", nil},
		{"RSA 1024 above", "tls-cert-file=@/weak.chain\n" + key, cannotCert + "weak.chain: certificate 2 (CN=weak): its RSA key has 1024 bits; 2048 or more are required (tls.conf:1)", nil},
		{"P-224", "tls-cert-file=@/224.cert\ntls-key-file=@/224.key\n", cannotCert + "224.cert: a key of curve P-224 cannot be used with TLS 1.3 (tls.conf:1)", nil},
		{"SHA-1", "tls-cert-file=@/sha1.cert\n" + key, cannotCert + "sha1.cert: certificate 1 (CN=sha1): its signature (SHA1-RSA) is too weak (tls.conf:1)", nil},
		{"wrong order", "tls-cert-file=@/wrong.chain\n" + key, "", []string{"certificate 3 (CN=x) is not of the issuer of certificate 2 (CN=intermediate)"}},
		{"no key file", cert + "tls-key-file=@/none\n", cannotKey + "none: no such file or directory (tls.conf:2)", nil},
		{"no key in the file", cert + "tls-key-file=@/cert\n", cannotKey + "cert: the file has no private key in PEM form (-----BEGIN ...) (tls.conf:2)", nil},
		{"encrypted key", cert + "tls-key-file=@/encrypted\n", cannotKey + "encrypted: the key is encrypted, and there is no way to enter its password; openssl pkey -in OLD -out NEW decrypts it (tls.conf:2)", nil},
		{"encrypted key, old form", cert + "tls-key-file=@/old.encrypted\n", cannotKey + "old.encrypted: the key is encrypted, and there is no way to enter its password; openssl pkey -in OLD -out NEW decrypts it (tls.conf:2)", nil},
		{"key of another certificate", cert + "tls-key-file=@/ec.key\n", cannotKey + "ec.key: it is not the key of the certificate in @/cert (CN=server) (tls.conf:2)", nil},
		{"key for all to read", cert + "tls-key-file=@/open.key\n", "", []string{"all users of this host have access to the private key @/open.key (mode 0644): chmod o= @/open.key"}},
		{"CA", cert + key + "tls-ca-cert-file=@/ca\n", "", nil},
		{"no CA file", cert + key + "tls-ca-cert-file=@/none\n", cannotCA + "none: no such file or directory (tls.conf:3)", nil},
		{"no CA in the file", cert + key + "tls-ca-cert-file=@/key\n", cannotCA + "key: the file has no certificate in PEM form (-----BEGIN ...) (tls.conf:3)", nil},
		{"damaged CA", cert + key + "tls-ca-cert-file=@/bad.cert\n", cannotCA + "bad.cert: certificate 1: x509: malformed certificate (tls.conf:3)", nil},
		{"one damaged CA of three", cert + key + "tls-ca-cert-file=@/cas\n", "", []string{"1 of 3 certificates are left out; the first is certificate 2: x509: malformed"}},
		{"long names of CAs", cert + key + "tls-ca-cert-file=@/big\n", cannotCA + "big: the names of the authorities need more than 60000 bytes, and pmcd sends them to each client (tls.conf:3)", nil},
		{"CA directory", cert + key + "tls-ca-cert-dir=@/dir\n", "", nil},
		{"no CA directory", cert + key + "tls-ca-cert-dir=@/none\n", "", []string{"no authority of tls-ca-cert-dir is used: open @/none: no such file"}},
		{"CA directory without hashes", cert + key + "tls-ca-cert-dir=@/unhashed\n", "", []string{"@/unhashed has no certificates with names like 0a1b2c3d.0; openssl rehash @/unhashed makes them"}},
		{"CA directory with text", cert + key + "tls-ca-cert-dir=@/baddir\n", "", []string{"@/baddir/0a1b2c3d.0 is left out: the file has no certificate"}},
		{"ciphers", cert + key + "tls-ciphers=ECDHE-RSA-AES128-GCM-SHA256:AES256-SHA\n", "", []string{"stands for no cipher that pmcd has: AES256-SHA"}},
		{"no cipher", cert + key + "tls-ciphers=nonsense\n", "Cannot set the cipher list from nonsense: it has no cipher that pmcd has; openssl ciphers -v ECDHE lists most (tls.conf:3)", nil},
		{"all suites", cert + key + "tls-ciphersuites=TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256\n", "", nil},
		{"one suite", cert + key + "tls-ciphersuites=TLS_CHACHA20_POLY1305_SHA256:TLS_X\n", "", []string{
			"because it is no suite of TLS 1.3: TLS_X", "also accepts TLS_AES_128_GCM_SHA256 and TLS_AES_256_GCM_SHA384"}},
		{"no suite", cert + key + "tls-ciphersuites=DEFAULT\n", "Cannot set the cipher suites from DEFAULT: it has no suite of TLS 1.3, as in TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384 (tls.conf:3)", nil},
		{"two errors", "tls-cert-file=@/none\ntls-key-file=@/none\n", cannotCert + "none: no such file or directory (tls.conf:1) (and 1 more)", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, warnings, err := Load(conf(t, dir, tt.conf), Options{})
			want := strings.ReplaceAll(tt.want, "@", dir)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != want || (s == nil) != (want != "") {
				t.Errorf("got %v, %q\nwant %q", s, got, want)
			}
			bad := len(warnings) != len(tt.warnings)
			for i := 0; i < len(warnings) && !bad; i++ {
				bad = !strings.Contains(warnings[i].Error(), strings.ReplaceAll(tt.warnings[i], "@", dir)) || warnings[i].Pos.Line == 0
			}
			if bad {
				t.Errorf("warnings:\n got %q\nwant %q", warnings.Unwrap(), tt.warnings)
			}
		})
	}
}

// Only tls-cert-file turns TLS on.
func TestOff(t *testing.T) {
	for text, want := range map[string]int{"": 0, "tls-ca-cert-file=/none\ntls-client-cert-file=/none\n": 0, "tls-key-file=/none\n": 1} {
		s, warnings, err := Load(conf(t, "", text), Options{RequireClientCert: true})
		if s != nil || err != nil || len(warnings) != want {
			t.Errorf("%q: %v, %v, %v", text, s, warnings, err)
		}
	}
}

// Warnings about -Q without an authority, and paths that are not absolute.
func TestWarnings(t *testing.T) {
	key := testutil.ECKey(t, elliptic.P256())
	t.Chdir(testutil.WriteFiles(t, map[string]string{"cert": testutil.Issue(t, nil, key, testutil.Named("x")).PEM(), "key": testutil.KeyPEM(t, key)}))
	_, warnings, err := Load(conf(t, "", "tls-cert-file=cert\ntls-key-file=key\n"), Options{RequireClientCert: true})
	if err != nil || len(warnings) != 3 || !strings.Contains(warnings[1].Error(), "tls.conf:2: key is not an absolute path") ||
		!strings.Contains(warnings[2].Error(), "tls.conf:1: no client can connect: -Q requires") {
		t.Errorf("got %q, %v", warnings.Unwrap(), err)
	}
}

// A caller can find the cause of an error, and its position.
func TestErrors(t *testing.T) {
	_, _, err := Load(conf(t, "", "tls-cert-file=/none\ntls-key-file=/none\n"), Options{})
	var e *Error
	if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &e) || e.Pos.String() != "tls.conf:1" {
		t.Errorf("got %v", err)
	}
}

// The policy for package tls.
func TestConfig(t *testing.T) {
	key := testutil.ECKey(t, elliptic.P256())
	ca := testutil.Issue(t, nil, key, testutil.Authority("CA"))
	other := testutil.Issue(t, nil, key, testutil.Authority("other"))
	s0 := testutil.Issue(t, ca, key, testutil.Named("s"))
	dir := testutil.WriteFiles(t, map[string]string{"cert": s0.PEM(), "key": testutil.KeyPEM(t, key), "ca": ca.PEM(), "dir/01234567.1": other.PEM(), "dir/0123456.0": s0.PEM()})
	text := "tls-cert-file=@/cert\ntls-key-file=@/key\ntls-client-cert-file=@/ca\ntls-client-key-file=/none\n" // the last two are for clients
	load := func(text string, require bool) *tls.Config {
		s, _, err := Load(conf(t, dir, text), Options{RequireClientCert: require})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Certificate().Subject.CommonName; got != "s" {
			t.Errorf("the certificate is of %s", got)
		}
		return s.Config()
	}
	c := load(text, false)
	if c.ClientCAs == nil || !c.ClientCAs.Equal(x509.NewCertPool()) || c.ClientAuth != tls.VerifyClientCertIfGiven || c.CipherSuites != nil ||
		!c.SessionTicketsDisabled || c.MinVersion != tls.VersionTLS12 || c.MaxVersion != 0 {
		t.Errorf("got %+v", c)
	}
	want := x509.NewCertPool()
	want.AddCert(ca.Cert)
	want.AddCert(other.Cert)
	if c := load(text+"tls-ca-cert-file=@/ca\ntls-ca-cert-dir=@/dir\n", true); !c.ClientCAs.Equal(want) || c.ClientAuth != tls.RequireAndVerifyClientCert {
		t.Errorf("-Q: got %+v", c)
	}
}

// Versions and tickets, as a client sees them.
func TestVersions(t *testing.T) {
	key := testutil.ECKey(t, elliptic.P256())
	dir := testutil.WriteFiles(t, map[string]string{"cert": testutil.Issue(t, nil, key, testutil.Named("s")).PEM(), "key": testutil.KeyPEM(t, key)})
	s, _, err := Load(conf(t, dir, "tls-cert-file=@/cert\ntls-key-file=@/key\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := connect(t, s, tls.VersionTLS11, nil); err == nil || !strings.Contains(err.Error(), "protocol version not supported") {
		t.Errorf("TLS 1.1: %v", err)
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		cache := tls.NewLRUClientSessionCache(1)
		for i := range 2 {
			state, err := connectWith(t, s, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version, ClientSessionCache: cache, NextProtos: []string{"h2"}, ServerName: "any.example"})
			if err != nil || state.DidResume || state.NegotiatedProtocol != "" {
				t.Errorf("%s, connection %d: %v, resumed %t, protocol %q", tls.VersionName(version), i+1, err, state.DidResume, state.NegotiatedProtocol)
			}
		}
	}
}

// Same is about the certificate.
func TestSame(t *testing.T) {
	key := testutil.ECKey(t, elliptic.P256())
	server := func() *Server { return &Server{leaf: testutil.Issue(t, nil, key, testutil.Named("x")).Cert} }
	var none *Server
	a, b := server(), server()
	if !a.Same(a) || !none.Same(none) || a.Same(b) || a.Same(none) || none.Same(a) {
		t.Error("Same is wrong")
	}
}

func TestExpiry(t *testing.T) {
	key := testutil.ECKey(t, elliptic.P256())
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	valid := func(by *testutil.Issued, name string, d time.Duration, template x509.Certificate) *testutil.Issued {
		template.NotBefore, template.NotAfter = start, start.Add(d)
		return testutil.Issue(t, by, key, template)
	}
	ca := valid(nil, "CA", 3650*day, testutil.Authority("CA"))
	year := valid(ca, "", 365*day, testutil.Named("year"))
	week := valid(ca, "", 6*day, testutil.Named("week"))
	short := valid(valid(ca, "", 100*day, testutil.Authority("short CA")), "", 365*day, testutil.Named("year"))
	for _, tt := range []struct {
		cert *testutil.Issued
		at   time.Duration
		want string // at the end
	}{
		{year, -time.Hour, " (CN=year) is not valid before 1 January 2030 00:00 UTC; clients that verify it do not connect"},
		{year, 0, ""},
		{year, 335 * day, ""},
		{year, 335*day + 1, " (CN=year) expires in 29 days, on 1 January 2031 00:00 UTC; replace it, then SIGHUP"},
		{year, 364*day + time.Hour, " (CN=year) expires in 23 hours, on 1 January 2031 00:00 UTC; replace it, then SIGHUP"},
		{year, 365*day + 1, " (CN=year) expired on 1 January 2031 00:00 UTC; clients that verify it do not connect: replace it, then SIGHUP"},
		{week, 4 * day, ""},
		{week, 4*day + 1, " (CN=week) expires in 47 hours, on 7 January 2030 00:00 UTC; replace it, then SIGHUP"},
		{short, 70 * day, ""},
		{short, 71 * day, " (CN=short CA) expires in 29 days, on 11 April 2030 00:00 UTC; replace it, then SIGHUP"},
	} {
		dir := testutil.WriteFiles(t, map[string]string{"cert": tt.cert.PEM(), "key": testutil.KeyPEM(t, key)})
		s, _, err := Load(conf(t, dir, "tls-cert-file=@/cert\ntls-key-file=@/key\n"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		want := tt.want
		if want != "" {
			want = "the TLS certificate in " + dir + "/cert" + want
		}
		if got := s.ExpiryProblem(start.Add(tt.at)); got != want {
			t.Errorf("%v after %v: got %q, want %q", tt.at, start, got, want)
		}
	}
}

// FuzzLoad checks that no certificate, key or list of authorities ends the program, and
// that what is accepted can be used.
func FuzzLoad(f *testing.F) {
	key := testutil.ECKey(f, elliptic.P256())
	good := testutil.Issue(f, nil, key, testutil.Named("x")).PEM()
	f.Add([]byte(good), []byte(testutil.KeyPEM(f, key)), []byte(good))
	f.Add([]byte(testutil.KeyPEM(f, rsaKey(f, 2048))+good), []byte(good), []byte{})
	dir := f.TempDir()
	c, _ := tlsconf.Parse("f", bytes.ReplaceAll([]byte("tls-cert-file=@/cert\ntls-key-file=@/key\ntls-ca-cert-file=@/ca\n"), []byte("@"), []byte(dir)))
	f.Fuzz(func(t *testing.T, cert, key, ca []byte) {
		for name, text := range map[string][]byte{"cert": cert, "key": key, "ca": ca} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, _, err := Load(c, Options{})
		if (s == nil) != (err != nil) {
			t.Fatalf("%v, %v", s, err)
		}
		if s == nil {
			_ = err.Error()
			return
		}
		switch s.Certificate().PublicKey.(type) {
		case *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey:
		default:
			t.Fatalf("key %T", s.Certificate().PublicKey)
		}
		s.ExpiryProblem(time.Now())
	})
}
