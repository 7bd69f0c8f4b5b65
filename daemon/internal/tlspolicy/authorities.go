package tlspolicy

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/gopcp/pmcd/pmcdconf/regular"
	"github.com/gopcp/pmcd/pmcdconf/tlsconf"
)

const (
	// maxNames is how long the names of all authorities may be, in bytes. pmcd sends them
	// to each client, in a list of at most 65535 bytes.
	maxNames = 60000
	// maxAuthorities is the number of files of a directory that are read.
	maxAuthorities = 1000
)

// A caPool has the authorities that may issue certificates of clients.
type caPool struct {
	pool  *x509.CertPool
	names int // length of the names, in bytes
}

var errNames = fmt.Errorf("the names of the authorities need more than %d bytes, and pmcd sends them to each client", maxNames)

func (p *caPool) add(c *x509.Certificate) error {
	n := 2 + len(c.RawSubject)
	if p.names+n > maxNames {
		return errNames
	}
	p.names += n
	p.pool.AddCert(c)
	return nil
}

// authorities reads tls-ca-cert-file and tls-ca-cert-dir. If there are none, the pool is
// empty: a nil pool would stand for the authorities of the system.
//
// C pmcd differs: it does not send the names of authorities in the directory, and looks at
// the directory when it needs a certificate.
func (l *loader) authorities() *x509.CertPool {
	p := &caPool{pool: x509.NewCertPool()}
	if v := l.conf.CAFile; v.IsSet() {
		if err := l.caFile(p, v.Text, v); err != nil {
			l.fail(v, "Cannot load the client CA list from", err)
		}
	}
	if v := l.conf.CADir; v.IsSet() {
		l.caDir(p, v)
	}
	return p.pool
}

// caFile adds the certificates of a file. It warns of those that it leaves out, and returns
// an error if none is left, unless OpenSSL may take one.
func (l *loader) caFile(p *caPool, path string, v tlsconf.Value) error {
	text, err := tlsconf.ReadFile(path)
	if err != nil {
		return err
	}
	blocks := certificateBlocks(text)
	if len(blocks) == 0 {
		return errNoPEM("certificate")
	}
	var first error
	good, foreigners := 0, 0
	for n, block := range blocks {
		c, err := ownCertificate(block.der)
		if err == nil && block.refused {
			err = foreign("OpenSSL is told not to trust it for clients")
		}
		if err == nil {
			err = p.add(c)
		}
		if isForeign(err) {
			foreigners++
		}
		switch {
		case errors.Is(err, errNames):
			return err
		case err == nil:
			good++
		case first == nil:
			first = fmt.Errorf("certificate %d: %w", n+1, err)
		}
	}
	switch bad := len(blocks) - good; {
	case good == 0 && foreigners == 0:
		return first
	case bad > 0:
		l.warn(v, fmt.Errorf("%s: %d of %d certificates are left out; the first is %w", path, bad, len(blocks), first))
	}
	return nil
}

// caDir adds the certificates of a directory. As in C pmcd, a directory that cannot be read
// is not an error.
func (l *loader) caDir(p *caPool, v tlsconf.Value) {
	entries, err := regular.ReadDir(v.Text)
	if err != nil {
		l.warn(v, fmt.Errorf("no authority of tls-ca-cert-dir is used: %w", err))
		return
	}
	// A hash of the subject, and a number.
	hashName := regexp.MustCompile(`^[0-9a-f]{8}\.[0-9]+$`)
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !hashName.MatchString(e.Name()) })
	if len(entries) == 0 {
		l.warn(v, fmt.Errorf("%s has no certificates with names like 0a1b2c3d.0; openssl rehash %[1]s makes them", v.Text))
	}
	if n := len(entries); n > maxAuthorities {
		l.warn(v, fmt.Errorf("%s: %d of %d files are left out", v.Text, n-maxAuthorities, n))
		entries = entries[:maxAuthorities]
	}
	for _, e := range entries {
		path := filepath.Join(v.Text, e.Name())
		if err := l.caFile(p, path, v); err != nil {
			l.warn(v, fmt.Errorf("%s is left out: %w", path, reason(err)))
			if errors.Is(err, errNames) {
				return
			}
		}
	}
}
