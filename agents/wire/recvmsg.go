//go:build !386

package wire

import "syscall"

const sysRecvmsg = syscall.SYS_RECVMSG
