// Package metrics finds the metrics of a pmcd that pmcdctl is asked for, gets and sets their
// values, and prints them for people and as JSON.
package metrics

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/message"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// Dial connects to the pmcd of a host specification. If that is empty and PMCD_HOST is not
// set, it tries Unix sockets, and then TCP to localhost. Its error is for the admin.
func Dial(ctx context.Context, host string, sockets []string, o pmapi.Options) (*pmapi.Client, error) {
	if host == "" {
		host = os.Getenv("PMCD_HOST")
	}
	if host != "" {
		c, err := pmapi.Dial(ctx, host, o)
		if err != nil {
			return nil, noPmcd(host, err)
		}
		return c, nil
	}
	var errs []error
	for i, s := range sockets {
		scheme := "unix:"
		if i == len(sockets)-1 {
			scheme = "local:"
		}
		path, err := filepath.Abs(s) // that of a host specification is absolute
		if err != nil {
			return nil, err
		}
		c, err := pmapi.Dial(ctx, scheme+path, o)
		if err == nil {
			return c, nil
		}
		var code pdu.Errno
		if errs = append(errs, err); errors.As(err, &code) || ctx.Err() != nil {
			break
		}
	}
	return nil, noPmcd("", errors.Join(errs...))
}

// noPmcd returns an error of a connection to a host, with what the admin can do. Without a
// host it is that of all places on this host.
func noPmcd(host string, err error) error {
	if spec := (*pmapi.SpecError)(nil); errors.As(err, &spec) {
		return fmt.Errorf("-h: %w (such as -h web1, -h pcps://web1:44321 or -h unix:/run/pcp/pmcd.socket)", spec)
	}
	text := "no pmcd answers: " + reasons(err)
	if hint := dialHint(host, err); hint != "" {
		text += " (" + hint + ")"
	}
	return &explained{text, err}
}

// explained is an error with another text.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.err }

// Reason returns the text of an error of a Sampler.
func Reason(err error) string {
	if !IsLost(err) {
		return err.Error()
	}
	return "no connection: " + reasons(err)
}

// reasons returns the text of an error of a connection.
func reasons(err error) string {
	var texts []string
	for _, e := range leaves(err) {
		texts = append(texts, reason(e))
	}
	return strings.Join(texts, "; ")
}

// leaves returns the errors of the places that were tried.
func leaves(err error) []error {
	switch e := err.(type) {
	case *pmapi.ConnError:
		return leaves(e.Err)
	case interface{ Unwrap() []error }:
		var all []error
		for _, err := range e.Unwrap() {
			all = append(all, leaves(err)...)
		}
		return all
	}
	return []error{err}
}

// reason returns an error of a place with the address once.
func reason(err error) string {
	if dns := (*net.DNSError)(nil); errors.As(err, &dns) {
		return dns.Name + ": " + dns.Err
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" && op.Addr != nil {
		return fmt.Sprintf("%v: %v", op.Addr, message.Errno(op.Err))
	}
	return err.Error()
}

// dialHint returns what the admin can do about err.
func dialHint(host string, err error) string {
	var cert *tls.CertificateVerificationError
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return "is that the name of the host? DNS or /etc/hosts must have it"
	case errors.As(err, &cert):
		return "SSL_CERT_FILE names a file of CAs; --any-certificate accepts all certificates"
	case strings.Contains(err.Error(), "tls: failed to parse certificate from server"): // it has no type
		return "PCP's clients may accept that certificate; docs/security.md, Certificates that Go does not read"
	case errors.Is(err, pdu.ErrnoNeedClientCert):
		return "use pcps://, and a certificate: tls-client-cert-file of tls.conf names one"
	case errors.Is(err, pmapi.ErrNoMethod):
		return "without TLS, a password is sent in clear text only if the host has &method=plain; pcps:// is for TLS"
	case errors.Is(err, pdu.ErrnoPermission):
		return "the section [access] of pmcd.conf says who may connect"
	case errors.Is(err, pdu.ErrnoEOPNOTSUPP):
		return "pmcdctl status there shows whether TLS is on"
	case errors.Is(err, context.DeadlineExceeded):
		return "is it a pmcd, and does a firewall let the port through?"
	case host == "":
		return "is pmcd running? systemctl status pmcd; -h names another host or socket"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return "is pmcd running there, and does it listen at that address?"
	}
	return ""
}

// hint returns what the admin can do about an error of a metric.
func hint(err error) string {
	switch {
	case errors.Is(err, pdu.ErrnoNoAgent):
		return "pmcdctl status shows why the agent is down"
	case errors.Is(err, pdu.ErrnoAgain), errors.Is(err, pdu.ErrnoTimeout):
		return "the agent is late: pmcdctl status shows it"
	case errors.Is(err, pdu.ErrnoPermission):
		return "the section [access] of pmcd.conf, or the agent, does not allow it to this user"
	}
	return ""
}

// withHint returns err with its hint.
func withHint(err error) error {
	if h := hint(err); h != "" {
		return fmt.Errorf("%w (%s)", err, h)
	}
	return err
}
