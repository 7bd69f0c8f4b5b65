package rawio

// These are missing in package syscall, which uses socketcall(2) (Linux 4.3,
// asm/unistd_32.h).
const (
	sysSendto   = 369
	sysRecvfrom = 371
	sysRecvmsg  = 372
)
