package root

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents/builtin/internal/inroot"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// hostName returns the result of gethostname(2) in a container whose first process is
// pid, as far as it is known without entering the name space, which would take
// CAP_SYS_ADMIN:
//
//  1. in the name space of this process, the host name of this process
//  2. the name that the engine has set: only a container with CAP_SYS_ADMIN can change
//     it, and that change is not seen
//  3. the first line of /etc/hostname in the container, which LXC, Docker, Podman and
//     Kubernetes write, and systemd in the container reads
//  4. the environment variable HOSTNAME with which the first process was started
//
// c is nil for a process that is not the first one of a known container.
func (t *table) hostName(c *container, pid int) (string, error) {
	same, err := t.proc.sameNamespace("uts", pid)
	switch {
	case err != nil:
		return "", err
	case same:
		return os.Hostname()
	case c != nil && isHostName(c.hostname):
		return c.hostname, nil
	}
	g := t.proc.guardOf(c == nil || c.ofUser)
	if b, err := guarded(g, func() ([]byte, error) { return readInRoot(t.proc.path(pid, "root"), "etc/hostname", 4096) }); err == nil {
		if name := firstLine(b); isHostName(name) {
			return name, nil
		}
	}
	b, err := guarded(g, func() ([]byte, error) { return readHead(t.proc.path(pid, "environ"), 256<<10), nil })
	if err != nil {
		return "", syscall.ETIMEDOUT
	}
	for v := range bytes.SplitSeq(b, []byte{0}) {
		if name, ok := bytes.CutPrefix(v, []byte("HOSTNAME=")); ok && isHostName(string(name)) {
			return string(name), nil
		}
	}
	return "", pdu.ErrnoValue
}

// firstLine returns the first line of a file that has words, without comments.
func firstLine(b []byte) string {
	for line := range bytes.Lines(b) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return string(line)
		}
	}
	return ""
}

// isHostName reports whether s can be a host name: up to 64 printable characters
// without blanks (sethostname(2)).
func isHostName(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// readInRoot returns the contents of a regular file of at most limit bytes. Links are
// resolved as if root were the root directory; links of /proc to files of processes are
// not followed. A file that is the one of this process says nothing about the container.
func readInRoot(root, path string, limit int64) ([]byte, error) {
	dir, err := syscall.Open(root, unix.O_PATH|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(dir)
	fd, err := inroot.Open(dir, path, false)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	switch err := syscall.Fstat(fd, &st); {
	case err != nil:
		return nil, err
	case st.Mode&syscall.S_IFMT != syscall.S_IFREG: // to open a device may have effects
		return nil, fs.ErrInvalid
	}
	var ours syscall.Stat_t
	if syscall.Stat("/"+path, &ours) == nil && ours.Dev == st.Dev && ours.Ino == st.Ino {
		return nil, fs.ErrExist
	}
	return regular.ReadFile(fmt.Sprintf("/proc/self/fd/%d", fd), limit)
}

// errnoOf returns the error number of err for a message of the socket.
func errnoOf(err error) int32 {
	var e syscall.Errno
	var p pdu.Errno
	switch {
	case errors.As(err, &p):
		return int32(p)
	case errors.As(err, &e):
		return -int32(e)
	}
	return int32(pdu.ErrnoGeneric)
}
