//go:build 386 || arm

package proc

import "syscall"

// On these machines the system calls without 32 in their names take ids of 16
// bits.
const (
	sysSetresuid = syscall.SYS_SETRESUID32
	sysSetresgid = syscall.SYS_SETRESGID32
	sysSetgroups = syscall.SYS_SETGROUPS32
)
