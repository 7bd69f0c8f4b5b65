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
		raw, err := ln.(syscall.Conn).SyscallConn()
		if err == nil {
			// listen(2) again changes nothing else.
			cerr := raw.Control(func(fd uintptr) { err = syscall.Listen(int(fd), n) })
			err = errors.Join(err, cerr)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
