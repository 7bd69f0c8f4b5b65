package reload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/tlspolicy"
	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A tlsRead is the result of reading tls.conf and the files that it names.
type tlsRead struct {
	server   *tlspolicy.Server // nil if TLS is off
	warnings pmcdconf.ErrorList
	err      error
}

func (r *Reloader) readTLS(ctx context.Context) (tlsRead, error) {
	path, opt := r.cfg.TLSConf, tlspolicy.Options{RequireClientCert: r.cfg.CertRequired}
	got, err := await(ctx, r, "reads "+path+" or a file that it names", func() (got tlsRead) {
		got.server, got.warnings, got.err = tlspolicy.LoadFile(path, opt)
		return got
	})
	for _, w := range got.warnings {
		r.cfg.Log.Warn("{error}", "error", w, "path", w.Pos.File, "line", w.Pos.Line, logtext.Event("tls_mistake"))
	}
	return got, err
}

// unreadable reports whether tls.conf itself cannot be read.
func (got *tlsRead) unreadable() bool {
	return got.err != nil && !errors.As(got.err, new(tlspolicy.Errors))
}

// LoadTLS loads the TLS policy for the first time. It returns an error if the policy cannot
// be used, or if ctx ends first. As in C pmcd, TLS is off if tls.conf cannot be read.
//
// C pmcd differs: it uses keys of kinds that Go does not have. So that it can be replaced, TLS is
// off with these, too.
func (r *Reloader) LoadTLS(ctx context.Context) error {
	got, err := r.readTLS(ctx)
	var errs tlspolicy.Errors
	switch {
	case err != nil:
		return err
	case errors.As(got.err, &errs) && errs.Foreign():
		text := fmt.Sprintf("TLS is off, so clients that require it cannot connect: %v; replace the file, then SIGHUP", got.err)
		r.tlsOff.Store(&text)
		r.cfg.Log.Error("{error}", "error", text, "path", r.cfg.TLSConf, logtext.Event("tls_rejected"))
	case got.unreadable():
		r.cfg.Log.Warn("TLS is off, because tls.conf cannot be read: {error}", "error", got.err, logtext.Event("tls_unreadable"))
	case got.err != nil:
		return got.err
	default:
		r.cfg.TLS.Store(got.server)
	}
	r.warnCertRequired()
	return nil
}

// TLSProblem returns a line that says why TLS is off, or "" if it is on or is meant to be off. Any
// goroutine may call it.
func (r *Reloader) TLSProblem() string {
	if text := r.tlsOff.Load(); text != nil {
		return *text
	}
	return ""
}

// warnCertRequired logs that clients cannot have the certificate that they need (-Q), if TLS
// is off.
func (r *Reloader) warnCertRequired() {
	if !r.cfg.CertRequired || r.cfg.TLS.Load() != nil {
		return
	}
	remedy := "set PCP_TLSCONF_PATH and restart pmcd"
	if r.cfg.TLSConf != "" {
		remedy = "set tls-cert-file and tls-key-file in " + r.cfg.TLSConf + " and send SIGHUP"
	}
	r.cfg.Log.Warn("-Q: TLS is off, so clients of other hosts may do nothing, and PCP's programs do not connect to 127.0.0.1 and ::1; {remedy}, or remove -Q",
		"remedy", remedy, logtext.Event("tls_required"))
}

// reloadTLS loads the TLS policy again. It always reads the files, because a certificate
// may be new while tls.conf is the same. If the new policy cannot be used, the old one
// stays in use, and reloadTLS returns an error.
//
// C pmcd differs: it reads these files only once.
func (r *Reloader) reloadTLS(ctx context.Context) error {
	got, err := r.readTLS(ctx)
	if err != nil {
		return err
	}
	old := r.cfg.TLS.Load()
	if got.err != nil {
		stays := "TLS stays off"
		if old != nil {
			stays = "the TLS settings that were read before stay in use"
		}
		err = fmt.Errorf("%w; %s", got.err, stays)
		r.cfg.Log.Error("{error}", "error", err, "path", r.cfg.TLSConf, logtext.Event("tls_rejected"))
		r.warnCertRequired()
		return err
	}
	r.cfg.TLS.Store(got.server)
	r.tlsOff.Store(nil)
	switch {
	case old.Same(got.server):
	case got.server == nil:
		r.cfg.Log.Warn("TLS is off now: {path} does not exist, or does not set tls-cert-file", "path", r.cfg.TLSConf, logtext.Event("tls_off"))
	default:
		r.cfg.Log.Info("TLS: new clients get the certificate of {subject}, which expires on {expires}",
			"subject", got.server.Certificate().Subject.String(), "expires", got.server.Expires().Format(time.RFC1123), logtext.Event("tls_certificate"))
	}
	r.warnCertRequired()
	return nil
}
