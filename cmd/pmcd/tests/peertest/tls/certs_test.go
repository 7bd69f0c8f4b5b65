package tls

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// An authority is a directory with certificates that openssl has made.
type authority struct{ dir string }

func (a *authority) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// newAuthority makes ca.crt and a certificate named server that it has signed.
func newAuthority(t *testing.T) *authority {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		testutil.Missing(t, err)
	}
	a := &authority{t.TempDir()}
	for _, dir := range []string{filepath.Dir(a.dir), a.dir} { // pmcd reads them as user pcp
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a.run(t, "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.crt")
	a.run(t, "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca2 -keyout ca2.key -out ca2.crt")
	a.issue(t, "server", "rsa:2048", "")
	return a
}

// run runs openssl in the directory.
func (a *authority) run(t *testing.T, args string) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "openssl "+args+" && chmod 644 *.key")
	cmd.Dir = a.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("openssl %s: %v\n%s", args, err, out)
	}
}

// issue makes a certificate with extensions, signed by ca with further options.
func (a *authority) issue(t *testing.T, name, key, extensions string, options ...string) {
	t.Helper()
	newkey := "-newkey " + key
	if key == "ec" {
		newkey = "-newkey ec -pkeyopt ec_paramgen_curve:P-256"
	}
	a.run(t, fmt.Sprintf("req %s -nodes -subj /CN=%[2]s -keyout %[2]s.key -out %[2]s.csr", newkey, name))
	a.write(t, name+".ext", extensions)
	opts := "-CA ca.crt -CAkey ca.key -days 2"
	if len(options) > 0 {
		opts = options[0]
	}
	a.run(t, fmt.Sprintf("x509 -req -in %[1]s.csr -CAcreateserial %[2]s -extfile %[1]s.ext -out %[1]s.crt", name, opts))
}
