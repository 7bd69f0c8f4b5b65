//go:build !386

package rawio

import "syscall"

const (
	sysSendto   = syscall.SYS_SENDTO
	sysRecvfrom = syscall.SYS_RECVFROM
	sysRecvmsg  = syscall.SYS_RECVMSG
)
