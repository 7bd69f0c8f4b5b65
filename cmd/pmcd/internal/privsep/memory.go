package privsep

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ProtectMemory keeps other processes of the same user, such as agents, from reading the
// memory of this process, in which there are passwords of clients. The kernel then also gives
// most files in /proc/PID to root and writes no core dump.
//
// When a process gives up root, the kernel does the same by itself, as the system is
// configured (fs.suid_dumpable of proc(5)). That is left as it is: core dumps for root only
// protect as well.
func ProtectMemory() error {
	const anyone = 1 // SUID_DUMP_USER: other processes of the user can
	switch was, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); {
	case err != nil:
		return fmt.Errorf("cannot protect the memory: PR_GET_DUMPABLE: %w", err)
	case was != anyone:
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot protect the memory: PR_SET_DUMPABLE: %w", err)
	}
	return nil
}
