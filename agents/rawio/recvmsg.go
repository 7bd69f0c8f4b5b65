//go:build !386

package rawio

import "syscall"

const sysRecvmsg = syscall.SYS_RECVMSG
