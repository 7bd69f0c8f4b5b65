package child

import (
	"os"
	"strconv"
	"syscall"
)

// SetCloexecAll keeps the descriptors that this process was started with, other than
// the standard three, from its children: Go opens its own close-on-exec, but
// those come from outside.
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
