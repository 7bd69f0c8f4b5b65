package systemd

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Sockets returns the sockets that the service manager has opened for the process
// with this pid, with their names (sd_listen_fds(3)). They start at descriptor 3.
// There are none if LISTEN_PID is another process. The errors are about sockets that are
// left out.
func Sockets(env Env, pid int) (files []*os.File, errs []error) {
	const first = 3
	if env["LISTEN_PID"] != strconv.Itoa(pid) {
		return nil, nil
	}
	n, err := strconv.Atoi(env["LISTEN_FDS"])
	if err != nil || n < 0 {
		return nil, []error{fmt.Errorf("no socket is inherited: LISTEN_FDS=%s is not a number of sockets", env["LISTEN_FDS"])}
	}
	names := strings.Split(env["LISTEN_FDNAMES"], ":")
	for fd := first; fd < first+n; fd++ {
		// A descriptor that is not a socket may be one of the Go runtime's.
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err != nil {
			errs = append(errs, fmt.Errorf("LISTEN_FDS=%d: descriptor %d: %w", n, fd, err))
			break
		}
		if st.Mode&syscall.S_IFMT != syscall.S_IFSOCK {
			errs = append(errs, fmt.Errorf("LISTEN_FDS=%d: descriptor %d is not a socket and is ignored", n, fd))
			continue
		}
		name := "unknown"
		if i := fd - first; i < len(names) && names[i] != "" {
			name = names[i]
		}
		syscall.CloseOnExec(fd)
		files = append(files, os.NewFile(uintptr(fd), name))
	}
	return files, errs
}
