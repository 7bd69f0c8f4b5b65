// Package clientcert has the certificate that a program shows to a pmcd: as with PCP's clients, that
// of tls.conf.
package clientcert

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
	"github.com/gopcp/pmcd/pmcdconf/tlsconf"
)

// Config returns the configuration of TLS for a pmapi.Client. No file is read before a pmcd asks
// for a certificate, and then the present files are.
func Config() *tls.Config { return &tls.Config{GetClientCertificate: certificate} }

// certificate returns the certificate that tls.conf names, or why there is none, which matters only
// to a pmcd that requires one.
//
// libpcp differs. It cannot connect if both certificates are set, if a file cannot be read, or if
// pmcd does not accept the certificate of the host, although few pmcds require one.
func certificate(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	conf, _, err := tlsconf.Load(path())
	if err != nil {
		return nil, err
	}
	cert, key := conf.ClientCertFile, conf.ClientKeyFile
	if !cert.IsSet() {
		cert, key = conf.CertFile, conf.KeyFile
	}
	switch {
	case !cert.IsSet():
		return nil, fmt.Errorf("%s sets neither tls-client-cert-file nor tls-cert-file", conf.Path)
	case !key.IsSet():
		return nil, fail(cert, errors.New("no key belongs to this certificate: there is no line for it"))
	}
	certText, err := tlsconf.ReadFile(cert.Text)
	if err != nil {
		return nil, fail(cert, err)
	}
	keyText, err := tlsconf.ReadFile(key.Text)
	if err != nil {
		return nil, fail(key, err)
	}
	pair, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		return nil, fail(key, fmt.Errorf("%s, for the certificate in %s: %w", key.Text, cert.Text, err))
	}
	if cert == conf.CertFile { // of the pmcd of this host; another one may not accept it
		if err := checkHostCertificate(r, &pair); err != nil {
			return nil, fail(cert, fmt.Errorf("%s: %w", cert.Text, err))
		}
	}
	return &pair, nil
}

// checkHostCertificate returns an error if pmcd would not accept the certificate of a host.
func checkHostCertificate(r *tls.CertificateRequestInfo, pair *tls.Certificate) error {
	uses := pair.Leaf.ExtKeyUsage
	if len(uses)+len(pair.Leaf.UnknownExtKeyUsage) > 0 && !slices.Contains(uses, x509.ExtKeyUsageClientAuth) && !slices.Contains(uses, x509.ExtKeyUsageAny) {
		return errors.New("the certificate is not for clients: its extended key usage does not have clientAuth")
	}
	if err := r.SupportsCertificate(pair); err != nil {
		return fmt.Errorf("pmcd does not accept such a certificate: %w", err)
	}
	return nil
}

// fail returns an error with the line of tls.conf.
func fail(v tlsconf.Value, err error) error {
	return &pmcdconf.Error{Pos: v.Pos, Err: fmt.Errorf("%s: %w", v.Key, err)}
}

// path returns the path of tls.conf: that of the environment or of pcp.conf, or else the default.
func path() string {
	const name = "PCP_TLSCONF_PATH"
	p := os.Getenv(name)
	if p == "" {
		vars, _ := pcpconf.Load(os.LookupEnv) // without it, the default is right
		for _, v := range vars {
			if v.Name == name {
				p = v.Value
			}
		}
	}
	return cmp.Or(p, tlsconf.DefaultPath)
}
