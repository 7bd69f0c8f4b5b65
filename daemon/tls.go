package daemon

import (
	"errors"
	"fmt"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/tlspolicy"
	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A TLSStatus describes the certificate that pmcd shows to clients that use TLS.
type TLSStatus struct {
	Subject string
	Expires time.Time // or an issuer in the same file does, if that is earlier
	Problem string    // that it expires soon, has expired or is not valid yet; or ""
}

func tlsStatus(s *tlspolicy.Server, now time.Time) *TLSStatus {
	if s == nil {
		return nil
	}
	return &TLSStatus{Subject: s.Certificate().Subject.String(), Expires: s.Expires(), Problem: s.ExpiryProblem(now)}
}

// CheckTLS reads the tls.conf at path and the files that it names, as Run does. It returns
// nil if TLS is off, or is not possible because of an error. The list has all mistakes;
// each that is not a warning would keep pmcd from starting. Warnings without a line are about
// tls.conf itself.
func CheckTLS(path string, certRequired bool) (*TLSStatus, pmcdconf.ErrorList) {
	s, list, err := tlspolicy.LoadFile(path, tlspolicy.Options{RequireClientCert: certRequired})
	if errs := tlspolicy.Errors(nil); errors.As(err, &errs) {
		for _, e := range errs {
			err := e.Cause()
			if errs.Foreign() {
				err = fmt.Errorf("TLS is off: %w", err)
			}
			list = append(list, &pmcdconf.Error{Pos: e.Pos, Warning: errs.Foreign(), Err: err})
		}
	} else if err != nil {
		list = append(list, &pmcdconf.Error{Warning: true, Err: err})
	}
	return tlsStatus(s, time.Now()), list
}

// tlsProblems returns the lines of Problems about TLS.
func (d *Daemon) tlsProblems(now time.Time) []string {
	text := d.reloader.TLSProblem()
	if s := d.tls.Load(); s != nil {
		text = s.ExpiryProblem(now)
	}
	if text == "" {
		return nil
	}
	return []string{text}
}

// An expiryWarning is the last warning about a certificate.
type expiryWarning struct {
	server *tlspolicy.Server // nil if there was none
	at     time.Time
}

// expiryEvery is how often the log has a warning about the same certificate.
const expiryEvery = 24 * time.Hour

// noteExpiry logs a warning if the certificate is not valid or expires soon, once for each
// certificate and once a day. Last is of the caller, the loop of Run. The problem can also end:
// the clock of a host without a battery is often set after the start of pmcd.
func (d *Daemon) noteExpiry(last *expiryWarning, now time.Time) {
	s, text := d.tls.Load(), ""
	if s != nil {
		text = s.ExpiryProblem(now)
	}
	if text == "" {
		if last.server != nil {
			*last = expiryWarning{}
			d.HealthChanged()
		}
		return
	}
	// By the clock: if that is set, the problem may be another one.
	if s.Same(last.server) && now.Round(0).Sub(last.at.Round(0)).Abs() < expiryEvery {
		return
	}
	*last = expiryWarning{s, now}
	d.log.Warn("{error}", "error", text, logtext.Event("tls_expiry"))
	d.HealthChanged()
}
