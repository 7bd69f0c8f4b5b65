package daemon

import (
	"errors"
	"syscall"
)

// SetBacklog makes n the number of clients that may wait at each socket until
// they are accepted (PMCD_MAXPENDING). Without, it is as many as the system
// allows (net.core.somaxconn).
func (l *Listeners) SetBacklog(n int) error {
	var errs []error
	for _, ln := range l.all {
		errs = append(errs, syscall.Listen(ln.fd, n)) // again: that changes nothing else
	}
	return errors.Join(errs...)
}
