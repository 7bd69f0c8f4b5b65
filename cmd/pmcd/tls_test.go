package main

import (
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
)

// pmcd does not start with TLS settings that it cannot use. It leaves no socket and no pid
// file, and its messages are those of C pmcd.
func TestBadTLS(t *testing.T) {
	for _, args := range [][]string{{"-f"}, {"-U", "daemon"}} { // the second is daemon mode
		t.Run(args[0], func(t *testing.T) {
			if args[0] == "-U" {
				testutil.NeedRoot(t)
			}
			p := pmcdtest.NewPlace(t, pmcdtest.Self(t))
			p.Write("tls.conf", "tls-cert-file = /none\ntls-key-file = /none\n")
			code, stderr := p.Run(args...)
			log := pmcdtest.Read(p.At("log/pmcd.log"))
			want := "Cannot load certificate chain from /none: no such file or directory (" + p.At("tls.conf") + ":1)"
			if code != cli.ExitError || !strings.Contains(log, " Error: "+want) || args[0] != "-f" && !strings.Contains(stderr, want) {
				t.Errorf("exit code %d\n%s\nlog:\n%s", code, stderr, log)
			}
			for _, name := range []string{"run/sock", "run/pmcd.pid", "run/sock.ctl"} {
				if p.Exists(name) {
					t.Errorf("%s is there", name)
				}
			}
		})
	}
}

// The status socket has the certificate.
func TestStatusOfTLS(t *testing.T) {
	p := pmcdtest.NewPlace(t, pmcdtest.Self(t))
	expires := time.Now().AddDate(0, 0, 20).UTC().Truncate(time.Second)
	testutil.WriteCertificate(t, p.Dir, "host", expires)
	p.Write("tls.conf", "tls-cert-file = "+p.At("host.crt")+"\ntls-key-file = "+p.At("host.key")+"\n")
	cmd := p.Command("-f")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	var r *ctl.Report
	testutil.Eventually(t, "a report", func() (ok bool) {
		var err error
		r, err = ctl.Ask(t.Context(), ctl.Path(p.At("run/sock")))
		return err == nil && r.TLS != nil
	})
	if r.TLS.Subject != "CN=host" || !r.TLS.Expires.Equal(expires) || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "(CN=host) expires in 19 days, on ") {
		t.Errorf("got %+v, %q", r.TLS, r.Problems)
	}
}
