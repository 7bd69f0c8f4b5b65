// Package status serves the state of the daemon on the status socket, whose protocol is
// package ctl.
package status

import (
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
	"github.com/gopcp/pmcd/daemon"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
)

// Serve serves the state of a daemon on its status socket, for pmcdctl, until stop
// is called. addrs are the addresses that the daemon listens at. This process must have
// become the user that it runs as. If there can be no status socket, it logs a warning,
// and the daemon serves clients without one.
func Serve(d *daemon.Daemon, opt *cli.Options, version string, addrs []net.Addr, log *slog.Logger) (stop func()) {
	if opt.Socket == "" {
		return func() {}
	}
	started := time.Now()
	s, err := ctl.Listen(ctl.Path(opt.Socket))
	if err != nil {
		log.Warn("status socket unavailable, pmcdctl cannot be used: {error}; clients are served", "error", err, "path", ctl.Path(opt.Socket))
		return func() {}
	}
	s.Serve(func() *ctl.Report { return report(d, opt, version, addrs, started) })
	return func() {
		if err := s.Close(); err != nil {
			log.Warn("cannot remove the status socket: {error}; a pmcd that root starts replaces it", "error", err, "path", ctl.Path(opt.Socket))
		}
	}
}

// report returns the state of d.
func report(d *daemon.Daemon, opt *cli.Options, version string, addrs []net.Addr, started time.Time) *ctl.Report {
	status := d.Status()
	reloads, agents, clients := status.Reloads, status.Agents, status.Clients
	now := time.Now()
	by := func(t time.Time) time.Time { return byNow(t, now) }
	r := &ctl.Report{
		Version:   pcpconf.Version,
		Build:     version,
		PID:       os.Getpid(),
		UID:       os.Geteuid(),
		Now:       now,
		Started:   by(started),
		Embedded:  opt.Embedded,
		Listening: make([]string, len(addrs)),
		Problems:  append([]string{}, status.Problems...),
		Agents:    make([]ctl.Agent, len(agents)),
		Clients:   make([]ctl.Client, len(clients)),
		Reloads:   ctl.Reloads{Count: reloads.Count, Last: by(reloads.Last)},

		Goroutines: status.Goroutines,
	}
	for _, l := range status.Limits {
		r.Limits = append(r.Limits, ctl.Limit{
			Name: l.Name, Unit: l.Unit, Used: l.Used, Limit: l.Limit, Disconnected: l.Disconnected, Last: l.Last, LastAt: by(l.LastAt),
		})
	}
	if o := status.Overload; o != nil {
		r.Overload = &ctl.Overload{Until: by(o.Until), TimeMS: o.Time.Milliseconds(), Requests: o.Requests, Most: o.Most, OfMost: o.OfMost}
	}
	if t := status.TLS; t != nil {
		r.TLS = &ctl.TLS{Subject: t.Subject, Expires: t.Expires}
	}
	if !opt.Embedded {
		r.Config, r.Namespace = opt.Config, opt.Namespace.Path
	}
	if reloads.Err != nil {
		r.Reloads.Error = reloads.Err.Error()
	}
	for i, a := range addrs {
		r.Listening[i] = a.Network() + ":" + a.String()
	}
	for i, a := range agents {
		r.Agents[i] = ctl.Agent{
			Name: a.Name, Domain: a.Domain, Kind: a.Kind, State: string(a.State), Since: by(a.Since), PID: a.PID, Note: a.Note,
			Restarts: a.Restarts, Failures: a.Failures, NextStart: timerByNow(a.NextStart, now),
			LastError: a.LastError, ErrorAt: by(a.ErrorAt), StderrTail: a.StderrTail,
			Requests: a.Requests, Errors: a.Errors, Abandoned: a.Abandoned,
			MeanUS: a.Mean.Microseconds(), MaxUS: a.Max.Microseconds(),
		}
	}
	for i, c := range clients {
		r.Clients[i] = ctl.Client{
			Number: c.Number, Address: c.Address, Since: by(c.Since),
			Whoami: c.Whoami, Container: c.Container, Denied: c.Denied,
		}
		if c.Unix {
			r.Clients[i].Address = "unix:" + c.Address
		}
		if c.UID >= 0 {
			r.Clients[i].UID = &c.UID
		}
	}
	return r
}

// byNow returns a past time by the clock as it is now: the clock may have been set since. So the
// status of a host whose clock was wrong at the start does not say that pmcd is up for 50 years. A
// difference of less than a month is the time in which the host was suspended, or a correction: the
// times agree with those of the log then.
func byNow(t, now time.Time) time.Time {
	age := now.Sub(t)
	if set := now.Round(0).Sub(t.Round(0)) - age; set.Abs() < 30*24*time.Hour {
		return t
	}
	return timerByNow(t, now)
}

// timerByNow returns the time of a timer by the clock as it is now: the clock does not matter to
// timers, nor does the time in which the host was suspended.
func timerByNow(t, now time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return now.Add(t.Sub(now))
}
