package daemon

import "github.com/gopcp/pmcd/daemon/internal/quota"

// A LimitStatus is a limit for all clients together, and its use.
type LimitStatus = quota.Status

// Limits reports on the limits for clients. It is called while Run runs.
func (d *Daemon) Limits() []LimitStatus {
	list := d.sessions.Limits()
	if a := d.acceptor.Load(); a != nil {
		s := a.Stats()
		list = append([]LimitStatus{{Name: "clients", Used: int64(s.Open), Limit: s.Most}}, list...)
	}
	return list
}
