package metrics

import (
	"crypto/elliptic"
	"crypto/tls"
	"net"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// An error of crypto/tls about a certificate that it does not parse has a hint.
func TestHintForCertificate(t *testing.T) {
	key := testutil.ECKey(t, elliptic.P256())
	odd := testutil.Edit(t, nil, testutil.Issue(t, nil, key, testutil.Named("odd name")), "\x13\x08odd name", "\x13\x08odd_name")
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		defer theirs.Close()
		tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{*odd.TLS()}}).Handshake()
	}()
	err := tls.Client(ours, &tls.Config{InsecureSkipVerify: true}).Handshake()
	if hint := dialHint("h", &pmapi.ConnError{Err: err}); !strings.Contains(hint, "docs/security.md") {
		t.Errorf("%v: hint %q", err, hint)
	}
}

// So has the error of a pmcd that requires a certificate, and TLS.
func TestHintForClientCertificate(t *testing.T) {
	err := &pmapi.ConnError{Err: pdu.ErrnoNeedClientCert}
	if hint := dialHint("h", err); !strings.Contains(hint, "pcps://") || !strings.Contains(hint, "tls-client-cert-file of tls.conf") {
		t.Errorf("%v: hint %q", err, hint)
	}
}
