package privsep

import (
	"fmt"
	"os"
	"strings"

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

// Traced reports whether a debugger is attached to this process. It can read the memory in any
// case, and could not go on if the memory were protected.
func Traced() bool {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if pid, ok := strings.CutPrefix(line, "TracerPid:"); ok {
			return strings.TrimSpace(pid) != "0"
		}
	}
	return false
}
