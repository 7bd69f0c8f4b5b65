package daemon

import (
	"slices"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/internal/logtext"
)

// defaultAddressEvery is how often the loop checks whether interfaces have the addresses of -i.
const defaultAddressEvery = 10 * time.Second

// addressProblems returns lines about addresses that pmcd listens at and that no interface has.
func (d *Daemon) addressProblems() (texts []string) {
	for _, addr := range d.cfg.Listeners.Absent() {
		texts = append(texts, conn.AbsentText(addr))
	}
	return texts
}

// checkAddresses logs which addresses no interface has any more, and which one has again.
func (l *loop) checkAddresses() {
	d := l.d
	now := d.cfg.Listeners.Absent()
	if slices.Equal(now, l.absent) {
		return
	}
	for _, addr := range now {
		if !slices.Contains(l.absent, addr) {
			d.log.Warn("{error}", "error", conn.AbsentText(addr), logtext.Event("address_absent"))
		}
	}
	for _, addr := range l.absent {
		if !slices.Contains(now, addr) {
			d.log.Info("an interface has address {value} ({option}) now: clients are accepted there", "option", "-i", "value", addr)
		}
	}
	l.absent = now
	d.HealthChanged()
}
