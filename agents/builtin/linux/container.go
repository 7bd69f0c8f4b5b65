package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
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
// files. Who is root in a container decides what is there: links, which are
// looked up as if its root were the only one, by openat2(2), which Linux 5.6
// brought; file systems that do not answer, see timeoutGuard; and devices, FIFOs and
// files of any size, none of which is opened: a file is read if it is the
// kernel's.
//
// Nothing of it is open between requests: a name space is there as long as
// anybody has a file of it open, and so are its devices.
//
// C differs: it enters the name spaces of the container, and is there while it
// reads.
type container struct {
	name  string
	pid   int      // of its first process
	proc  string   // proc/PID, below the root of the host
	dir   string   // the same, as a path
	root  *os.File // its root directory; nil between requests
	guard *timeoutGuard

	// Types of file systems (statfs(2)) that the host has at /sys and /dev: those
	// that files are read of, and links.
	sysType, devType int64
}

// newContainer returns the container of a process.
func (h *host) newContainer(name string, pid int) *container {
	c := &container{name: name, pid: pid, proc: fmt.Sprintf("proc/%d", pid)}
	c.dir = h.path(c.proc)
	typeOf := func(dir string) int64 {
		var st syscall.Statfs_t
		if syscall.Statfs(h.path(dir), &st) != nil {
			return -1
		}
		return int64(st.Type)
	}
	c.sysType, c.devType = typeOf("sys"), typeOf("dev")
	return c
}

// begin opens the root of the container, for one request.
func (c *container) begin() error {
	c.guard.begin()
	r, err := c.guard.call("", func(r *callResult) (err error) { // of NFS, perhaps
		r.fd, err = syscall.Open(c.dir+"/root", unix.O_PATH|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH):
		return pdu.ErrnoNoContainer
	case errors.Is(err, fs.ErrPermission):
		return pdu.ErrnoPermission
	case err != nil:
		return err
	}
	c.root = os.NewFile(uintptr(r.fd), c.dir+"/root")
	return nil
}

// end ends what begin has begun.
func (c *container) end() {
	c.root.Close() // what is left behind holds it until it is done
	c.root = nil
}

// openPath returns a descriptor of what there is at a path in the container, O_PATH,
// and the file system that it is on.
func (c *container) openPath(path string, flags int) (*callResult, error) {
	root, err := c.root.SyscallConn()
	if err != nil {
		return nil, err
	}
	return c.guard.call(path, func(r *callResult) error {
		var err error
		if e := root.Control(func(dir uintptr) {
			r.fd, err = unix.Openat2(int(dir), path, &unix.OpenHow{
				Flags:   uint64(flags | unix.O_PATH | syscall.O_CLOEXEC),
				Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
			})
		}); e != nil {
			return e
		}
		if err != nil {
			return err
		}
		return syscall.Fstatfs(r.fd, &r.statfs)
	})
}

// open opens a file of the container as a sysfile.Reader does: to read it, which
// must be the kernel's and for everybody, or with O_PATH.
func (c *container) open(path string, flags int) (int, error) {
	r, err := c.openPath(path, flags&syscall.O_NOFOLLOW)
	if err != nil {
		return -1, err
	}
	typ := int64(r.statfs.Type)
	if flags&unix.O_PATH != 0 {
		if flags&syscall.O_NOFOLLOW == 0 || typ == c.devType {
			return r.fd, nil
		}
		syscall.Close(r.fd)
		return -1, syscall.EACCES
	}
	defer syscall.Close(r.fd)
	var st syscall.Stat_t
	switch err := syscall.Fstat(r.fd, &st); {
	case err != nil:
		return -1, err
	case typ != c.sysType || st.Mode&0o004 == 0:
		return -1, syscall.EACCES
	}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFREG, syscall.S_IFDIR:
		return syscall.Open(fmt.Sprintf("/proc/self/fd/%d", r.fd), flags|syscall.O_CLOEXEC, 0)
	}
	return -1, syscall.EACCES
}

// inNetworkNamespace calls f in the network of the container, on another thread.
func (c *container) inNetworkNamespace(f func() error) error {
	return onOwnThread(func() (bool, error) {
		// Not /proc/self, which is the first thread.
		hostNS, err := syscall.Open("/proc/thread-self/ns/net", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return true, err
		}
		defer syscall.Close(hostNS)
		containerNS, err := syscall.Open(c.dir+"/ns/net", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return true, err
		}
		defer syscall.Close(containerNS)
		if err := unix.Setns(containerNS, unix.CLONE_NEWNET); err != nil {
			return true, err
		}
		err = f()
		return unix.Setns(hostNS, unix.CLONE_NEWNET) == nil, err
	})
}

// onOwnThread calls f on a thread that nothing else is on. It ends if f does not
// say that it is as it was before. It is not the first one of the process: what
// that is in, /proc/self shows to all.
func onOwnThread(f func() (restored bool, err error)) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if syscall.Gettid() == syscall.Getpid() {
			defer runtime.UnlockOSThread()
			done <- onOwnThread(f) // on another one, as this one is taken
			return
		}
		restored, err := f()
		if restored {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}
