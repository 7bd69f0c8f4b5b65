package child

import (
	"os"
	"strconv"
	"syscall"
)

// SetCloexecAll sets the close-on-exec flag of all open descriptors but the
// standard three, so that children do not inherit them. Go sets the flag of the
// descriptors that it opens, but not of those that this process inherited.
func SetCloexecAll() error {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range list {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}
