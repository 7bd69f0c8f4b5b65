package checkagents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/launch/roothelper"
)

// name is that of the process, unless pmcdctl has started it.
const name = "pmcd-check"

// Prepare makes this process one that starts agents for a check. It returns an error if the process
// must start none.
//
// PCP's scripts take each process whose name is pmcd for the daemon, so the process gets another one.
func Prepare() error {
	auxv, err := unix.Auxv()
	switch {
	case secure(auxv) || os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid():
		return errors.New("--check-agents is refused: it would start programs of the caller's choice with rights that the caller does not have, " +
			"because of a set-user-ID or set-group-ID bit, capabilities of the file, or a security module (AT_SECURE in getauxval(3))")
	case err != nil: // as in a process with such rights, if glibc has removed TMPDIR from its environment
		return fmt.Errorf("--check-agents is refused: cannot find out whether pmcd has rights that the caller does not have: %w", err)
	}
	if programName() == "pmcd" {
		return fmt.Errorf("cannot change the name of this process: %w",
			syscall.Exec(roothelper.Self, slices.Concat([]string{name}, os.Args[1:]), os.Environ()))
	}
	os.WriteFile("/proc/self/comm", []byte(programName()), 0) // it was that of the file
	if err := child.SetCloexecAll(); err != nil {
		return fmt.Errorf("agents may inherit open descriptors: %w", err)
	}
	return nil
}

// programName returns the name of this program in messages: that of pmcdctl, if that has started it.
func programName() string { return filepath.Base(os.Args[0]) }

// secure reports whether the kernel has given this process rights that its caller does not have.
func secure(auxv [][2]uintptr) bool {
	const atSecure = 23 // AT_SECURE
	return slices.ContainsFunc(auxv, func(v [2]uintptr) bool { return v[0] == atSecure && v[1] != 0 })
}
