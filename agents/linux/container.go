package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/pdu"
)

// A container is what a view of one is made with. Its methods are for the host,
// too, which is a nil one.
//
// The network of a container is in /proc/PID/net, and its file systems are below
// /proc/PID/root, so it is entered only for what the kernel does not have as
// files. A container may have any links in its directories: paths are looked up
// as if its root were the only one, by openat2(2), which Linux 5.6 brought.
//
// C differs: it enters the name spaces of the container, and is there while it
// reads.
type container struct {
	name string
	pid  int    // of its first process
	proc string // proc/PID, below the root of the host
	dir  string // the same, as a path
	root int    // descriptor of its root directory
}

// openContainer returns the container of a process.
func (h *host) openContainer(name string, pid int) (*container, error) {
	c := &container{name: name, pid: pid, proc: fmt.Sprintf("proc/%d", pid)}
	c.dir = h.path(c.proc)
	var err error
	c.root, err = syscall.Open(c.dir+"/root", unix.O_PATH|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH):
		return nil, pdu.ErrnoNoContainer
	case errors.Is(err, fs.ErrPermission):
		return nil, pdu.ErrnoPermission
	case err != nil:
		return nil, err
	}
	return c, nil
}

func (c *container) close() { syscall.Close(c.root) }

// open opens a file of the container.
func (c *container) open(path string, flags int) (int, error) {
	return unix.Openat2(c.root, path, &unix.OpenHow{
		Flags:   uint64(flags | syscall.O_CLOEXEC),
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// statfs is statfs(2).
func (c *container) statfs(path string, st *syscall.Statfs_t) error {
	if c == nil {
		return syscall.Statfs(path, st)
	}
	fd, err := c.open(path, unix.O_PATH)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	return syscall.Fstatfs(fd, st)
}

// inNetwork calls f in the network of the container, on another thread.
func (c *container) inNetwork(f func() error) error {
	return onThread(func() (bool, error) {
		// Not /proc/self, which is the first thread.
		home, err := syscall.Open("/proc/thread-self/ns/net", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return true, err
		}
		defer syscall.Close(home)
		there, err := syscall.Open(c.dir+"/ns/net", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return true, err
		}
		defer syscall.Close(there)
		if err := unix.Setns(there, unix.CLONE_NEWNET); err != nil {
			return true, err
		}
		err = f()
		return unix.Setns(home, unix.CLONE_NEWNET) == nil, err
	})
}

// onThread calls f on a thread that nothing else is on. It ends if f does not
// say that it is as it was before. It is not the first one of the process: what
// that is in, /proc/self shows to all.
func onThread(f func() (same bool, err error)) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if syscall.Gettid() == syscall.Getpid() {
			defer runtime.UnlockOSThread()
			done <- onThread(f) // on another one, as this one is taken
			return
		}
		same, err := f()
		if same {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}
