package daemon

import (
	"log/slog"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/session"
)

// minOverload is what an Overload has to last in a minute to be worth a line in the log.
const minOverload = time.Second

// An Overload says that requests were queued, because pmcd had more of them than it
// could answer.
type Overload struct {
	session.Overload
	Until time.Time // when the minute ended that it is about
}

// noteOverload is called each minute.
func (d *Daemon) noteOverload(now time.Time) {
	o := d.sessions.Overload()
	if o.Time < minOverload {
		return
	}
	last := &Overload{o, now}
	d.overload.Store(last)
	last.log(d.log)
}

// log logs o.
func (o Overload) log(log *slog.Logger) {
	message := "pmcd has more requests than it can answer at once: for {overloaded} of the last minute requests were queued. "
	attrs := []any{"overloaded", o.Time.Round(100 * time.Millisecond), "requests", o.Requests}
	if o.OfMost > 0 {
		message += "Of {requests} requests {most} were from {busiest}"
		attrs = append(attrs, "most", o.OfMost, "busiest", o.Most)
	} else {
		message += "There were {requests} requests"
	}
	log.Warn(message+". pmcdctl status --json lists the clients: let them ask less often, or limit the connections of a host or user (maximum N connections in [access] of pmcd.conf)", attrs...)
}

// CPUsChanged makes the numbers of requests, of TLS handshakes and of logins that are computed at a
// time follow runtime.GOMAXPROCS, which the caller has changed, because the process may use n CPUs now.
func (d *Daemon) CPUsChanged(n int) {
	slots, handshakes := d.sessions.Resize()
	d.log.Info("the number of CPUs that pmcd may use is {cpus} now (CPU affinity, limits of the control group): it computes {slots} requests, {handshakes} TLS handshakes and as many logins at a time",
		"cpus", n, "slots", slots, "handshakes", handshakes)
}

// LastOverload returns the last Overload, or nil.
func (d *Daemon) LastOverload() *Overload { return d.overload.Load() }
