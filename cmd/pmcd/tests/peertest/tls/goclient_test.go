package tls

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// goClients makes certificates of clients, and returns the environments of clients in Go that show
// them: "" shows none, and "unreadable" cannot read the key, in line 2 of its tls.conf.
func goClients(t *testing.T) (certs *authority, envs map[string][]string) {
	certs = newAuthority(t)
	const san = "subjectAltName=IP:127.0.0.1\n"
	certs.issue(t, "server", "ec", san)
	certs.issue(t, "client", "ec", "extendedKeyUsage=clientAuth\n")
	certs.issue(t, "servers", "ec", "extendedKeyUsage=serverAuth\n")
	certs.write(t, "bad.key", "no key")
	line := func(kind, key, cert string) string {
		return fmt.Sprintf("tls-%[1]scert-file = %[2]s/%[3]s.crt\ntls-%[1]skey-file = %[2]s/%[4]s.key\n", kind, certs.dir, cert, key)
	}
	envs = make(map[string][]string)
	for name, text := range map[string]string{
		"":              "",
		"client":        line("client-", "client", "client"),
		"host":          line("", "server", "server"),
		"both":          line("client-", "client", "client") + line("", "none", "server"),
		"unreadable":    line("", "none", "server"),
		"no key":        line("client-", "bad", "client"),
		"for servers":   line("", "servers", "servers"),
		"not in a file": line("client-", "none", "none"),
	} {
		file := "tls-" + strings.ReplaceAll(name, " ", "-") + ".conf"
		certs.write(t, file, text)
		envs[name] = []string{tlsConf(certs, file), "SSL_CERT_FILE=" + filepath.Join(certs.dir, "ca.crt"), "PCP_SECURE_SOCKETS="}
	}
	return certs, envs
}

// command returns a command of a client in Go.
func command(t *testing.T, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// TestGoClientCertificates connects pmcdctl with certificates that tls.conf names, to pmcds that
// require one (-Q) and that do not.
func TestGoClientCertificates(t *testing.T) {
	certs, envs := goClients(t)
	pmcdctl, err := peer.Ctl()
	if err != nil {
		t.Fatal(err)
	}
	for _, option := range []string{"", "-Q"} {
		p := start(t, certs, strings.Fields(option)...)
		for which, d := range map[string]*peer.Daemon{"C": p.C, "ours": p.Ours} {
			for name, env := range envs {
				t.Run(fmt.Sprintf("%s %s %s", which, option, name), func(t *testing.T) {
					out, err := command(t, env, pmcdctl, "get", "-h", "pcps://"+d.Host(peer.TCP4), "pmcd.feature.secure").CombinedOutput()
					want := "pmcd.feature.secure  1\n"
					conf := strings.TrimPrefix(env[0], "PCP_TLSCONF_PATH=")
					switch {
					case option == "": // whatever cannot be shown
					case name == "":
						want = conf + " sets neither tls-client-cert-file nor tls-cert-file"
					case name == "unreadable":
						want = conf + ":2: tls-key-file: open " + certs.dir + "/none.key: no such file or directory"
					case name == "no key":
						want = conf + ":2: tls-client-key-file: " + certs.dir + "/bad.key, for the certificate in "
					case name == "for servers":
						want = conf + ":1: tls-cert-file: " + certs.dir + "/servers.crt: the certificate is not for clients"
					case name == "not in a file":
						want = conf + ":1: tls-client-cert-file: open " + certs.dir + "/none.crt: no such file or directory"
					}
					if good := want[0] == 'p'; good != (err == nil) || !strings.Contains(string(out), want) || good && string(out) != want {
						t.Errorf("%v\n%s\nwant %s", err, out, want)
					}
				})
			}
		}
	}
}

// TestExporterCertificate reads pmcds that require a certificate with the exporter for Prometheus.
func TestExporterCertificate(t *testing.T) {
	certs, envs := goClients(t)
	path, err := peer.Program("pmcd-prometheus", "./cmd/pmcd/pmcd-prometheus")
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, certs, "-Q")
	for which, d := range map[string]*peer.Daemon{"C": p.C, "ours": p.Ours} {
		for name, want := range map[string]string{"client": "pmcd_numagents{", "unreadable": ":2: tls-key-file: open " + certs.dir + "/none.key"} {
			t.Run(which+" "+name, func(t *testing.T) {
				port, err := peer.FreePort()
				if err != nil {
					t.Fatal(err)
				}
				listen := "127.0.0.1:" + strconv.Itoa(port)
				cmd := command(t, envs[name], path, "-h", "pcps://"+d.Host(peer.TCP4), "--listen", listen, "pmcd.numagents")
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				defer func() {
					cmd.Process.Signal(syscall.SIGTERM)
					cmd.Wait()
				}()
				text := ""
				if !peer.Until(testutil.Hangs, func() bool {
					text = get(t.Context(), "http://"+listen+"/metrics")
					return strings.Contains(text, want)
				}) {
					t.Errorf("got %s, want %s", text, want)
				}
			})
		}
	}
}

// get returns the body of a reply, or an error.
func get(ctx context.Context, url string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
