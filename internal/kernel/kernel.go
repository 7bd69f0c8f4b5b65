// Package kernel says what errors of Linux mean.
package kernel

import (
	"errors"
	"syscall"
)

// Lacks reports whether err, of a system call that is newer than the kernels and container runtimes
// that pmcd runs on, can mean that the call is not there. The kernel answers ENOSYS. Filters of
// system calls that do not know the call answer EPERM: older container runtimes have such filters, and
// so does systemd with SystemCallErrorNumber=EPERM or, before version 248, RestrictSUIDSGID=yes.
//
// EPERM can also be about what the call was for. So what the caller does instead must have the same
// protection: if the call follows no links, neither does the replacement. EACCES is never about the
// call itself.
//
// A caller that does the same after every error does not need Lacks.
func Lacks(err error) bool {
	return errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EPERM)
}
