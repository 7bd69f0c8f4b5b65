package daemon

import (
	"context"
	"os"
	"os/user"
	"strconv"

	"github.com/gopcp/pmcd/daemon/internal/sasl"
	"github.com/gopcp/pmcd/internal/logtext"
)

// startSASL makes the Host for logins, if there is a helper. Clients are not greeted before
// it is known whether they can log in, or ctx ends.
func (d *Daemon) startSASL(ctx context.Context) (stop func()) {
	if d.cfg.Security.SASLHelper == nil {
		d.warnLogins()
		return func() {}
	}
	host := sasl.New(sasl.Options{
		Start: func(sock *os.File, probe bool) (sasl.Process, error) {
			p, err := d.cfg.Security.SASLHelper(sock, probe)
			if err != nil {
				return nil, err // and not a Process that is nil
			}
			return p, nil
		},
		Log:     d.limiter,
		Timeout: d.cfg.hooks.saslTimeout,
	})
	stopWatching := context.AfterFunc(ctx, host.Close) // which ends the wait
	err := host.Available()
	stopWatching()
	if ctx.Err() != nil {
		return host.Close
	}
	if err != nil {
		d.log.Info("clients cannot log in (SASL): {error}", "error", err)
	}
	d.sasl.Store(host)
	d.warnLogins()
	return host.Close
}

// warnLogins logs that clients cannot log in, if they must.
func (d *Daemon) warnLogins() {
	if d.sessions.CredsRequired() && !d.sessions.CanLogIn() {
		d.log.Warn("clients at TCP ports must log in (-S, or rules for users or groups) and cannot, so they may do nothing; clients at the Unix domain socket are served; {remedy}",
			"remedy", "install libsasl2 and restart pmcd, or remove -S and the rules", logtext.Event("logins_required"))
	}
}

// restartSASL makes the next login read the configuration of SASL again.
func (d *Daemon) restartSASL() {
	if host := d.sasl.Load(); host != nil {
		host.Restart()
	}
}

// lookUpUser returns the uid and the primary gid of a user.
func lookUpUser(name string) (uid, gid uint32, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, err
	}
	var ids [2]uint32
	for i, text := range []string{u.Uid, u.Gid} {
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return 0, 0, err
		}
		ids[i] = uint32(id)
	}
	return ids[0], ids[1], nil
}
