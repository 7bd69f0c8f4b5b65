package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/diag"
)

// A loop is what Run does while clients are served. It does not wait for long work: that is a
// job, which another goroutine does, one at a time.
type loop struct {
	d          *Daemon
	job        <-chan struct{} // closed at the end of the job; nil if there is none
	background sync.WaitGroup
	expiry     expiryWarning
	report     <-chan time.Time // nil if there is nothing to report
	overdue    <-chan time.Time // of a reload; nil if there is none, or if it was reported
	wasOverdue bool
	absent     []string // addresses that no interface had at the last check
}

// run does what is due, and what others ask for, until ctx ends.
func (l *loop) run(ctx context.Context) {
	d := l.d
	d.noteExpiry(&l.expiry, time.Now())
	minute := time.NewTicker(diag.LimitInterval)
	defer minute.Stop()
	l.checkAddresses()
	addresses := time.NewTicker(d.cfg.hooks.addressEvery)
	defer addresses.Stop()
	for ctx.Err() == nil {
		var reloads, nameChanges <-chan struct{}
		var reportDue <-chan time.Time
		if l.job == nil {
			reloads, nameChanges, reportDue = d.reloader.Requests(), d.reloader.NameRequests(), l.report
		}
		select {
		case <-ctx.Done():
		case <-d.probes:
		case <-l.job:
			l.jobEnded()
		case now := <-minute.C:
			d.limiter.Flush(false)
			d.noteOverload(now)
			d.noteExpiry(&l.expiry, now)
		case <-addresses.C:
			l.checkAddresses()
		case <-d.healthNews:
			if l.report == nil {
				l.report = time.After(healthTime)
			}
		case <-reportDue:
			l.report, l.job = nil, start(d.reportChanged) // the function that it calls may be slow
		case <-reloads:
			d.restartSASL()
			l.startReload(func() { d.reloader.Reload(ctx); d.warnLogins() })
		case <-nameChanges:
			l.startReload(func() { d.reloader.ReloadNames(ctx) }) // logs what is wrong
		case <-l.overdue:
			l.reportOverdue()
		}
	}
}

func (l *loop) startReload(f func()) {
	l.d.reloader.Begin()
	l.job, l.overdue = start(f), time.After(l.d.cfg.hooks.overdue)
}

func (l *loop) reportOverdue() {
	l.overdue, l.wasOverdue = nil, true
	l.background.Go(func() { // the log may be what the reload waits for
		l.d.reloader.LogOverdue()
		l.d.reportChanged()
	})
}

func (l *loop) jobEnded() {
	l.job, l.overdue = nil, nil
	if l.wasOverdue {
		l.wasOverdue = false
		l.d.HealthChanged()
	}
	l.d.noteExpiry(&l.expiry, time.Now()) // of a new certificate
}

// start runs f on a goroutine. The channel is closed when f has returned.
func start(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}
