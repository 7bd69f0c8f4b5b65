package daemon

import (
	"bytes"
	"context"
	"crypto/elliptic"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/logtest"
	"github.com/gopcp/pmcd/internal/testutil"
)

// tlsText returns a tls.conf.
func tlsText(dir, name string) string {
	return "tls-cert-file = " + filepath.Join(dir, name) + ".crt\ntls-key-file = " + filepath.Join(dir, name) + ".key\n"
}

// A reload loads tls.conf and its files again. What cannot be used changes nothing.
func TestReloadTLS(t *testing.T) {
	later := time.Now().AddDate(1, 0, 0).UTC().Truncate(time.Second)
	r := newHarness(t, func(c *Config) {
		c.Files.TLS = filepath.Join(filepath.Dir(c.Files.Conf), "tls.conf")
		dir := filepath.Dir(c.Files.Conf)
		testutil.WriteCertificate(t, dir, "a", later)
		testutil.WriteCertificate(t, dir, "b", later)
		if err := os.WriteFile(c.Files.TLS, []byte(tlsText(dir, "a")), 0o600); err != nil {
			t.Fatal(err)
		}
	}, nil)
	r.awaitStarts()
	r.dial() // the files are loaded before that
	path := filepath.Join(r.dir, "tls.conf")
	const stays = "; the TLS settings that were read before stay in use"
	check := func(when, want, reloadError string) {
		t.Helper()
		got := ""
		if st := r.Status().TLS; st != nil {
			got = strings.TrimPrefix(st.Subject, "CN=")
			if !st.Expires.Equal(later) || st.Problem != "" {
				t.Errorf("%s: %+v", when, st)
			}
		}
		gotError := ""
		if err := r.Status().Reloads.Err; err != nil {
			gotError = err.Error()
		}
		if got != want || gotError != reloadError {
			t.Errorf("%s: got %q, %q\nwant %q, %q", when, got, gotError, want, reloadError)
		}
	}
	check("at the start", "a", "")
	agent := r.routes.Load().Agent(240).Conn()
	r.reloaded()
	check("nothing has changed", "a", "")
	policy := r.tls.Load()
	r.write("tls.conf", tlsText(r.dir, "none"))
	r.reloaded()
	check("no certificate", "a", "Cannot load certificate chain from "+r.dir+"/none.crt: no such file or directory ("+path+":1) (and 1 more)"+stays)
	if r.tls.Load() != policy {
		t.Error("the policy is another one")
	}
	r.write("tls.conf", tlsText(r.dir, "b")+"nonsense\n")
	r.reloaded()
	check("another certificate", "b", "")
	r.awaitLogged(t, path+`:3: "nonsense" has neither`)
	r.awaitLogged(t, "TLS: new clients get the certificate of CN=b")
	testutil.WriteCertificate(t, r.dir, "b", later.Add(-time.Hour))
	later = later.Add(-time.Hour)
	r.reloaded()
	check("a new certificate in the same file", "b", "")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	r.reloaded()
	check("tls.conf cannot be read", "b", "open "+path+": not a regular file"+stays)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r.reloaded()
	check("no tls.conf", "", "")
	r.awaitLogged(t, "TLS is off now: "+path)
	r.write("tls.conf", "tls-cert-file = /none\n")
	r.reloaded()
	check("no certificate, and TLS was off", "", "Cannot load certificate chain from /none: no such file or directory ("+path+":1) (and 1 more); TLS stays off")
	if r.routes.Load().Agent(240).Conn() != agent {
		t.Error("agent 240 was started again")
	}
}

// Run returns an error if the TLS settings cannot be used. TLS is off if tls.conf cannot be
// read.
func TestStartTLS(t *testing.T) {
	dir := t.TempDir()
	start := func(path string) (*Daemon, *logtest.Log, error) {
		cfg := minimalConfig(t)
		l, err := Listen([]string{"127.0.0.1"}, []int{0}, filepath.Join(t.TempDir(), "sock"))
		if err != nil {
			t.Fatal(err)
		}
		log, logs := logtest.NewLog()
		cfg.Listeners, cfg.Files.TLS, cfg.Log = l, path, log
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		served := false
		cfg.Manager.Serving = func() {
			served = true
			cancel()
		}
		d, err := New(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		err = d.Run(ctx)
		if served == (err != nil) {
			t.Errorf("%s: %v, and it has served: %t", path, err, served)
		}
		if _, err := os.Lstat(l.UnixPath()); err == nil {
			t.Errorf("%s: the socket is there", path)
		}
		return d, logs, err
	}
	bad := filepath.Join(dir, "tls.conf")
	if err := os.WriteFile(bad, []byte("tls-cert-file = /none\ntls-key-file = /none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "Cannot load certificate chain from /none: no such file or directory (" + bad + ":1) (and 1 more)"
	if _, _, err := start(bad); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	for _, path := range []string{"", "/dev/null", filepath.Join(dir, "none"), filepath.Join(bad, "x"), dir} {
		d, logs, err := start(path)
		warned := slices.ContainsFunc(logs.All(), func(e logtest.Entry) bool {
			return strings.Contains(e.Message, "TLS is off, because tls.conf cannot be read: ")
		})
		if err != nil || d.Status().TLS != nil || warned != (path == dir) {
			t.Errorf("%q: %v, %v, a warning: %t", path, err, d.Status().TLS, warned)
		}
	}
}

// A certificate that expires is a problem, and is logged once a day.
func TestExpiry(t *testing.T) {
	var reports atomic.Int32
	r := newHarness(t, func(c *Config) {
		c.Manager.Changed = func(Health) { reports.Add(1) }
		dir := filepath.Dir(c.Files.Conf)
		c.Files.TLS = filepath.Join(dir, "tls.conf")
		testutil.WriteCertificate(t, dir, "old", time.Now().Add(-time.Hour))
		testutil.WriteCertificate(t, dir, "good", time.Now().AddDate(0, 2, 0))
		if err := os.WriteFile(c.Files.TLS, []byte(tlsText(dir, "old")), 0o600); err != nil {
			t.Fatal(err)
		}
	}, nil)
	r.dial()
	expired := r.Problems()
	if len(expired) != 1 || !strings.HasPrefix(expired[0], "the TLS certificate in "+r.dir+"/old.crt (CN=old) expired on ") {
		t.Fatalf("problems: %q", expired)
	}
	count := func(text string) (n int) {
		for _, e := range r.logs.All() {
			if strings.Contains(e.Message, text) {
				n++
			}
		}
		return n
	}
	testutil.Eventually(t, "a warning at the start", func() bool { return count(expired[0]) == 1 })

	now := time.Now()
	const day = 24 * time.Hour
	last := new(expiryWarning)
	for i, tt := range []struct {
		at   time.Duration
		want int
	}{{0, 1}, {time.Hour, 1}, {day - 1, 1}, {day, 2}, {2*day - 1, 2}, {2 * day, 3}} {
		r.noteExpiry(last, now.Add(tt.at))
		if n := count(expired[0]) - 1; n != tt.want {
			t.Errorf("%d: %d warnings after %v, want %d", i, n, tt.at, tt.want)
		}
	}
	r.write("tls.conf", tlsText(r.dir, "good"))
	r.reloaded()
	if got := r.Problems(); len(got) != 0 {
		t.Errorf("a new certificate: %q", got)
	}
	const soon = "(CN=good) expires in "
	for _, tt := range []struct {
		at   time.Duration
		want int
	}{{2 * day, 0}, {20 * day, 0}, {33 * day, 1}, {33*day + time.Hour, 1}} {
		r.noteExpiry(last, now.Add(tt.at))
		if n := count(soon); n != tt.want {
			t.Errorf("%d warnings after %v, want %d", n, tt.at, tt.want)
		}
	}

	// A clock that is wrong at first, and is set twice: each problem has its warning, and the
	// service manager gets to know when there is none.
	const year = 365 * day
	*last = expiryWarning{}
	for i, tt := range []struct {
		at       time.Duration // since the start of pmcd
		step     time.Duration // of the clock
		warnings [2]int        // not valid yet, expired
		reports  int32         // of another state
	}{
		{time.Hour, -year, [2]int{1, 0}, 1}, {2 * time.Hour, -year, [2]int{1, 0}, 0},
		{3 * time.Hour, 0, [2]int{1, 0}, 1}, {4 * time.Hour, 0, [2]int{1, 0}, 0}, {5 * time.Hour, year, [2]int{1, 1}, 1},
		{6 * time.Hour, -year, [2]int{2, 1}, 1}, {7 * time.Hour, year, [2]int{2, 2}, 1},
	} {
		before := reports.Load()
		r.noteExpiry(last, testutil.ClockSet(now.Add(tt.at), tt.step))
		if got := [2]int{count("(CN=good) is not valid before "), count("(CN=good) expired on ")}; got != tt.warnings {
			t.Errorf("%d: %d warnings, want %d", i, got, tt.warnings)
		}
		testutil.Eventually(t, "a report", func() bool { return reports.Load() >= before+tt.reports })
	}
}

// CheckTLS is what pmcd -v says.
func TestCheckTLS(t *testing.T) {
	dir := t.TempDir()
	testutil.WriteCertificate(t, dir, "a", time.Now().Add(time.Hour))
	path := filepath.Join(dir, "tls.conf")
	for _, tt := range []struct {
		text, want string
		on         bool
	}{
		{"", "", false},
		{tlsText(dir, "a"), "", true},
		{tlsText(dir, "a") + "x", path + `:3: "x" has neither = nor : after it; the line is ignored`, true},
		{"\ntls-cert-file=/none\ntls-key-file=" + dir + "/a.key\ntls-ciphers=x\n",
			path + ":2: Cannot load certificate chain from /none: no such file or directory\n" +
				path + ":4: Cannot set the cipher list from x: it has no cipher that pmcd has; openssl ciphers -v ECDHE lists most", false},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		st, list := CheckTLS(path, false)
		if got := errors.Join(list.Unwrap()...); (got == nil) != (tt.want == "") || got != nil && got.Error() != tt.want || (st != nil) != tt.on {
			t.Errorf("%q: got %v, %v\nwant %s", tt.text, st, got, tt.want)
		}
		if st != nil && (st.Subject != "CN=a" || !strings.Contains(st.Problem, "expires in 0 hours")) {
			t.Errorf("got %+v", st)
		}
		if (list.Err() != nil) != (tt.want != "" && !tt.on) {
			t.Errorf("%q: %v", tt.text, list.Err())
		}
	}
	if st, list := CheckTLS(dir, false); st != nil || len(list) != 1 || !list[0].Warning {
		t.Errorf("a directory: %v, %v", st, list)
	}
}

// With a key that OpenSSL can use and Go cannot, pmcd starts without TLS, and says so until it has
// another one.
func TestForeignTLS(t *testing.T) {
	var path string
	r := newHarness(t, func(c *Config) {
		dir := filepath.Dir(c.Files.Conf)
		path = filepath.Join(dir, "tls.conf")
		c.Files.TLS = path
		for _, name := range []string{"a", "b"} {
			testutil.WriteCertificate(t, dir, name, time.Now().AddDate(1, 0, 0))
		}
		der, err := x509.MarshalPKCS8PrivateKey(testutil.ECKey(t, elliptic.P256()))
		if err != nil {
			t.Fatal(err)
		}
		const p256, p192 = "\x2a\x86\x48\xce\x3d\x03\x01\x07", "\x2a\x86\x48\xce\x3d\x03\x01\x01"
		key := testutil.PEM("PRIVATE KEY", bytes.Replace(der, []byte(p256), []byte(p192), 1))
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "b.key"), []byte(key), 0o600), os.WriteFile(path, []byte(tlsText(dir, "b")), 0o600)); err != nil {
			t.Fatal(err)
		}
	}, nil)
	r.awaitStarts()
	r.dial().good()
	off := "TLS is off, so clients that require it cannot connect: Cannot load private key from " + r.dir + "/b.key: Go cannot use it: x509: failed to parse EC private key embedded in PKCS#8: x509: unknown elliptic curve (" + path + ":2); replace the file, then SIGHUP"
	r.awaitLogged(t, off)
	check := func(when string, on bool, problems ...string) {
		t.Helper()
		if got := r.Problems(); (r.Status().TLS != nil) != on || !slices.Equal(got, problems) {
			t.Errorf("%s: TLS %v, problems %q\nwant %t, %q", when, r.Status().TLS, got, on, problems)
		}
	}
	check("at the start", false, off)
	if st, list := CheckTLS(path, false); st != nil || list.Err() != nil || len(list) != 1 || !strings.HasPrefix(list[0].Error(), path+":2: TLS is off: Cannot load private key") {
		t.Errorf("-v: %v, %v", st, list)
	}
	r.reloaded()
	check("a reload of the same", false, off)
	r.write("tls.conf", tlsText(r.dir, "a"))
	r.reloaded()
	check("a key that Go can use", true)
	r.write("tls.conf", tlsText(r.dir, "b"))
	r.reloaded()
	check("the first key again", true)
}

// With -Q and without TLS, a warning says that clients of other hosts may do nothing: at the
// start and at each reload.
func TestCertRequiredWithoutTLS(t *testing.T) {
	r := newHarness(t, func(c *Config) {
		c.Files.TLS = filepath.Join(filepath.Dir(c.Files.Conf), "tls.conf")
		c.Security.CertRequired = true
	}, nil)
	r.awaitStarts()
	want := "-Q: TLS is off, so clients of other hosts may do nothing, and PCP's programs do not connect to 127.0.0.1 and ::1; " +
		"set tls-cert-file and tls-key-file in " + r.dir + "/tls.conf and send SIGHUP, or remove -Q"
	check := func(when string, n int) {
		t.Helper()
		// At the start, Run logs it on a goroutine of its own.
		testutil.Eventually(t, fmt.Sprintf("%s: %d warnings", when, n), func() bool { return len(r.logs.With(want)) == n })
	}
	check("at the start", 1)
	r.reloaded()
	check("nothing has changed", 2)
	r.write("tls.conf", "tls-cert-file = /none\n")
	r.reloaded()
	check("no certificate", 3)
	testutil.WriteCertificate(t, r.dir, "a", time.Now().AddDate(1, 0, 0))
	r.write("tls.conf", tlsText(r.dir, "a"))
	r.reloaded()
	r.write("tls.conf", "tls-cert-file = /none\n")
	r.reloaded()
	check("TLS is on", 3)
	r.write("tls.conf", "")
	r.reloaded()
	check("TLS is off again", 4)
}
