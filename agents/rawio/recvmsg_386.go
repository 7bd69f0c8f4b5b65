package rawio

// sysRecvmsg is missing in package syscall, which uses socketcall(2) (Linux 4.3,
// asm/unistd_32.h).
const sysRecvmsg = 372
