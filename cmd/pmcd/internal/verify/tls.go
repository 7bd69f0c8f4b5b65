package verify

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/privsep"
	"github.com/gopcp/pmcd/daemon"
	"github.com/gopcp/pmcd/pmcdconf"
)

// asUser calls check with the rights of the user that pmcd becomes. If it cannot, it returns an
// error and does not call check.
func (v *verifier) asUser(opt *cli.Options, check func()) error {
	var user *privsep.Identity
	if !opt.StandAlone() {
		user, _ = privsep.RunAs(opt.User, os.Geteuid(), os.Getenv) // pmcd reports the error when it starts
	}
	if user == nil {
		check()
		return nil
	}
	return user.WithFileRights(check)
}

// tls checks tls.conf and the files that it names, with the rights of the user that pmcd
// becomes: a key that only root can read keeps pmcd from starting. With --verify there are only
// errors: PCP's script prints what --verify prints, with which C pmcd does not look at TLS, and
// the log has the warnings.
func (v *verifier) tls(opt *cli.Options) {
	var status *daemon.TLSStatus
	var list pmcdconf.ErrorList
	if err := v.asUser(opt, func() { status, list = daemon.CheckTLS(opt.TLSConf, opt.RemoteCert) }); err != nil {
		if opt.VerifyRights {
			v.warn(pmcdconf.Pos{}, fmt.Errorf("TLS is not checked: %w", err))
		}
		return
	}
	for _, e := range list {
		switch {
		case !e.Warning:
			v.fail(e.Pos, e.Err)
		case !opt.VerifyRights:
		case e.Pos == (pmcdconf.Pos{}):
			v.warn(e.Pos, fmt.Errorf("TLS is off, because tls.conf cannot be read: %w", e.Err))
		default:
			v.warn(e.Pos, e.Err)
		}
	}
	if status == nil || !opt.VerifyRights {
		return
	}
	if status.Problem != "" {
		v.warn(pmcdconf.Pos{}, errors.New(status.Problem))
	}
	v.say("Info", pmcdconf.Pos{File: opt.TLSConf}, fmt.Errorf("TLS is on: the certificate of %s expires on %s", status.Subject, status.Expires.Format(time.RFC1123)))
}
