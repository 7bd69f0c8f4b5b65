package rawio

// Package syscall does not have these numbers, because it uses socketcall(2). They
// are in asm/unistd_32.h, since Linux 4.3.
const (
	sysSendto   = 369
	sysRecvfrom = 371
	sysRecvmsg  = 372
)
