package sysfile

import (
	"errors"
	"slices"
	"syscall"
)

// A Kind of file says which errors of an open or a read mean that there is nothing to
// read. Each other error, such as EIO or EACCES, is a failure.
type Kind int

const (
	// Process is a file of a process or thread, which may have ended.
	Process Kind = iota
	// Label is attr/current of a process. Without a security module the error is EINVAL.
	Label
	// Kernel is a file of the kernel or of a device. The kernel may be built without it, or
	// have it switched off, as RHEL has /proc/pressure, and the device may be gone.
	Kernel
	// Link is the speed or duplex of an interface. The error is EINVAL if the
	// interface is down or its driver does not know.
	Link
)

var absent = [...][]syscall.Errno{
	Process: {syscall.ENOENT, syscall.ESRCH},
	Label:   {syscall.ENOENT, syscall.ESRCH, syscall.EINVAL},
	Kernel:  {syscall.ENOENT, syscall.ENODEV, syscall.EOPNOTSUPP},
	Link:    {syscall.ENOENT, syscall.ENODEV, syscall.EOPNOTSUPP, syscall.EINVAL},
}

// Absent reports whether err means that there is nothing to read.
func (k Kind) Absent(err error) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains(absent[k], errno)
}
