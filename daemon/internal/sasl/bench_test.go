package sasl_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/logtest"
	"github.com/gopcp/pmcd/daemon/internal/sasl"
	"github.com/gopcp/pmcd/internal/saslhelper"
	"github.com/gopcp/pmcd/internal/testutil"
)

// A login by PLAIN: the fork of its process and two messages.
func BenchmarkPlain(b *testing.B) {
	testutil.NeedPeer(b, "saslpasswd2")
	needHelper(b)
	dir := b.TempDir()
	if err := os.WriteFile(dir+"/pmcd.conf", []byte("sasldb_path: "+dir+"/sasldb2\n"), 0o644); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command("saslpasswd2", "-c", "-p", "-f", dir+"/sasldb2", "alice")
	cmd.Stdin = strings.NewReader(password)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("saslpasswd2: %v\n%s", err, out)
	}
	log, _ := logtest.NewLog()
	h := sasl.New(sasl.Options{Log: diag.NewLogLimiter(log), Start: func(sock *os.File, probe bool) (sasl.Process, error) {
		return saslhelper.Start(saslhelper.Options{Env: []string{"SASL_CONF_PATH=" + dir}}, sock, probe)
	}})
	defer h.Close()
	for b.Loop() {
		e, _, err := h.Begin(b.Context(), sasl.Login{})
		if err != nil {
			b.Fatal(err)
		}
		if _, done, _, err := e.Step(b.Context(), []byte(plain("alice", password))); !done {
			b.Fatal(err)
		}
	}
}
