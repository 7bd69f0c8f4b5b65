//go:build 386 || arm

package proc

import "syscall"

// The calls without 32 are for 16 bits.
const (
	sysSetresuid = syscall.SYS_SETRESUID32
	sysSetresgid = syscall.SYS_SETRESGID32
	sysSetgroups = syscall.SYS_SETGROUPS32
)
