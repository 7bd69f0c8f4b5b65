// Package tlspolicy makes the TLS policy of the server from tls.conf: which certificate pmcd
// shows, which certificates of clients it accepts, and which versions and ciphers it uses.
// It opens no connection.
//
// The policy is that of C pmcd with OpenSSL at security level 2, the level of Debian: keys
// have a strength of 112 bits or more, and signatures with SHA-1 do not count.
package tlspolicy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmcdconf/tlsconf"
)

// Options are the options of Load that are not in tls.conf.
type Options struct {
	RequireClientCert bool // -Q: a TLS connection without a client certificate fails
}

// A Server is the TLS policy of a server. It never changes. Any goroutine may call its
// methods.
type Server struct {
	config  *tls.Config
	leaf    *x509.Certificate
	path    string            // of the certificate
	pos     pmcdconf.Pos      // of the line that names it
	expires *x509.Certificate // of the chain, the first to expire
}

// Config returns the configuration for package tls. The caller must not change it.
func (s *Server) Config() *tls.Config { return s.config }

// Certificate returns the certificate of the server.
func (s *Server) Certificate() *x509.Certificate { return s.leaf }

// Expires returns when the certificate of the server expires, or one of its issuers that
// is in the same file, if that is earlier.
func (s *Server) Expires() time.Time { return s.expires.NotAfter }

// Same reports whether s and other show the same certificate. Both may be nil.
func (s *Server) Same(other *Server) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.leaf.Equal(other.leaf)
}

// An Error says why TLS cannot be set up.
type Error struct {
	Pos  pmcdconf.Pos // of the line of tls.conf
	Text string       // what fails, as C pmcd says it
	Err  error        // why
}

func (e *Error) Error() string { return fmt.Sprintf("%v (%v)", e.Cause(), e.Pos) }

// Cause returns the error without its position.
func (e *Error) Cause() error { return fmt.Errorf("%s: %w", e.Text, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Errors is all that keeps TLS from being set up; there is at least one.
type Errors []*Error

func (l Errors) Error() string {
	if n := len(l) - 1; n > 0 {
		return fmt.Sprintf("%v (and %d more)", l[0], n)
	}
	return l[0].Error()
}

// Foreign reports whether OpenSSL may be able to use all that Go cannot. C pmcd may then have
// started with these files.
func (l Errors) Foreign() bool {
	return !slices.ContainsFunc(l, func(e *Error) bool { return !isForeign(e.Err) })
}

// Unwrap lets errors.Is and errors.As look at every error.
func (l Errors) Unwrap() []error {
	errs := make([]error, len(l))
	for i, e := range l {
		errs[i] = e
	}
	return errs
}

// Load reads the files that conf names and returns the policy. It returns nil and no error
// if conf does not turn TLS on, which tls-cert-file does. The warnings are about what does
// not have the effect that conf suggests. The error is Errors.
func Load(conf *tlsconf.Conf, opt Options) (*Server, pmcdconf.ErrorList, error) {
	l := &loader{conf: conf}
	if !conf.CertFile.IsSet() {
		if conf.KeyFile.IsSet() {
			l.warn(conf.KeyFile, errors.New("TLS is off: tls-key-file is set, and tls-cert-file is not"))
		}
		return nil, l.warnings, nil
	}
	for _, v := range []tlsconf.Value{conf.CertFile, conf.KeyFile, conf.CAFile, conf.CADir} {
		if v.IsSet() && !filepath.IsAbs(v.Text) {
			l.warn(v, fmt.Errorf("%s is not an absolute path; it begins at the working directory of pmcd", v.Text))
		}
	}
	config := &tls.Config{
		MinVersion:             tls.VersionTLS12,
		ClientAuth:             tls.VerifyClientCertIfGiven,
		VerifyConnection:       verifyConnection,
		SessionTicketsDisabled: true,
		// A reply is one record, or several of the largest size, as in C pmcd. The small
		// records that package tls begins with help programs that show a part of a reply.
		DynamicRecordSizingDisabled: true,
	}
	if opt.RequireClientCert {
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	chain := l.chain()
	l.key(config, chain)
	config.ClientCAs = l.authorities()
	config.CipherSuites = l.ciphers()
	l.cipherSuites()
	if opt.RequireClientCert && !conf.CAFile.IsSet() && !conf.CADir.IsSet() {
		l.warn(conf.CertFile, errors.New("no client can connect: -Q requires certificates of clients, and neither tls-ca-cert-file nor tls-ca-cert-dir is set"))
	}
	if l.errors != nil {
		return nil, l.warnings, l.errors
	}
	s := &Server{config: config, leaf: chain[0], path: conf.CertFile.Text, pos: conf.CertFile.Pos, expires: chain[0]}
	for _, c := range chain {
		if c.NotAfter.Before(s.expires.NotAfter) {
			s.expires = c
		}
	}
	return s, l.warnings, nil
}

// A loader collects what is wrong with the files that conf names.
type loader struct {
	conf     *tlsconf.Conf
	warnings pmcdconf.ErrorList
	errors   Errors
}

func (l *loader) warn(v tlsconf.Value, err error) {
	l.warnings = append(l.warnings, &pmcdconf.Error{Pos: v.Pos, Warning: true, Err: err})
}

// fail adds an error. Text is what C pmcd says. Its messages end with the value.
func (l *loader) fail(v tlsconf.Value, text string, err error) {
	l.errors = append(l.errors, &Error{Pos: v.Pos, Text: text + " " + v.Text, Err: reason(err)})
}

// reason returns err without the path, which the message has already.
func reason(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// LoadFile reads the tls.conf at path, and returns what Load returns for it. If path is "",
// or if there is no such file, TLS is off. An error that is not Errors means that tls.conf
// cannot be read.
func LoadFile(path string, opt Options) (*Server, pmcdconf.ErrorList, error) {
	if path == "" {
		return nil, nil, nil
	}
	conf, warnings, err := tlsconf.Load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	s, more, err := Load(conf, opt)
	return s, append(warnings, more...), err
}
