//go:build !386 && !arm

package proc

import "syscall"

const (
	sysSetresuid = syscall.SYS_SETRESUID
	sysSetresgid = syscall.SYS_SETRESGID
	sysSetgroups = syscall.SYS_SETGROUPS
)
