package serve

import (
	"cmp"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// takeStdio returns duplicates of the standard input and output, which children
// of the agent do not inherit. It replaces the originals by an empty input and by
// the standard error output.
func takeStdio() (in, out *os.File, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	defer null.Close()
	var fds [2]int
	syscall.ForkLock.RLock()
	for i := range fds {
		if fds[i], err = syscall.Dup(i); err != nil {
			break
		}
		syscall.CloseOnExec(fds[i])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	if err := syscall.Dup3(int(null.Fd()), 0, 0); err != nil {
		return nil, nil, err
	}
	if err := syscall.Dup3(2, 1, 0); err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "stdin"), os.NewFile(uintptr(fds[1]), "stdout"), nil
}

// redirectOutput replaces the standard output and the standard error output by f.
func redirectOutput(f *os.File) error {
	for _, fd := range []int{1, 2} {
		if err := syscall.Dup3(int(f.Fd()), fd, 0); err != nil {
			return err
		}
	}
	return nil
}

// setUser changes the user of the process (pmSetProcessIdentity(3)) to the one
// that -U names. Without -U it changes the user only if the process is root's, to
// def or, if def is "", to PCP's user.
func setUser(fromOption, def string) error {
	if fromOption == "" && os.Geteuid() != 0 {
		return nil
	}
	name := cmp.Or(fromOption, def, pcpUser())
	u, err := user.Lookup(name)
	if err != nil {
		return fmt.Errorf("cannot find the %s user to switch to", name)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	ids, err := u.GroupIds()
	if err != nil {
		return fmt.Errorf("groups of %s user: %w", name, err)
	}
	var groups []int
	for _, id := range ids {
		n, err := strconv.Atoi(id)
		if err != nil {
			return err
		}
		groups = append(groups, n)
	}
	if err := syscall.Setgid(gid); err != nil {
		return fmt.Errorf("setgid to gid of %s user (gid=%d): %w", name, gid, err)
	}
	// A process that runs as that user already has its groups, and is not allowed
	// to set them.
	if err := syscall.Setgroups(groups); err != nil && err != syscall.EPERM {
		return fmt.Errorf("setgroups to those of %s user: %w", name, err)
	}
	if err := syscall.Setuid(uid); err != nil {
		return fmt.Errorf("setuid to uid of %s user (uid=%d): %w", name, uid, err)
	}
	return nil
}
