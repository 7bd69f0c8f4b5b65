package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents/builtin/internal/inroot"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/pdu"
)

// A container gives access to the files and the network of a container.
//
// The network of a container is in /proc/PID/net, and its file systems are in
// /proc/PID/root. The agent enters the container only for data that the kernel
// does not have as files.
//
// Root in the container controls the files there and may try to mislead the agent.
// Symbolic links are resolved within the root of the container (package inroot). File systems that do not respond are the subject of timeoutGuard.
// Devices, FIFOs and files of any size are never opened: only files of a file
// system of the kernel are read.
//
// No file of a container is open between requests. An open file would keep its
// name space and its devices alive.
//
// C differs: it enters the name spaces of the container while it reads.
type container struct {
	name  string   // as the client of the present request has given it
	proc  string   // proc/PID of its first process, relative to Options.Root
	dir   string   // path of the same directory
	root  *os.File // its root directory; nil between requests
	guard *timeoutGuard

	// Types (statfs(2)) of the file systems that the host has at /sys and /dev.
	// Files are read only from the first type, links only from the second.
	sysType, devType int64
}

// newContainer returns the container whose first process is pid.
func (h *host) newContainer(pid int) *container {
	c := &container{proc: fmt.Sprintf("proc/%d", pid)}
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
	r, err := c.guard.call("", func(r *callResult) (err error) { // may block, for instance if the root is on NFS
		r.fd, err = syscall.Open(c.dir+"/root", unix.O_PATH|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		return err
	})
	switch {
	case sysfile.Process.Absent(err):
		return pdu.ErrnoNoContainer
	case errors.Is(err, fs.ErrPermission):
		return pdu.ErrnoPermission
	case err != nil:
		return err
	}
	c.root = os.NewFile(uintptr(r.fd), c.dir+"/root")
	return nil
}

// end ends a request.
func (c *container) end() {
	c.root.Close() // abandoned calls hold the descriptor until they return
	c.root = nil
}

// openPath opens a path in the container with O_PATH. The result has the
// descriptor, the data of the file system, and the mount.
func (c *container) openPath(path string, flags int) (*callResult, error) {
	root, err := c.root.SyscallConn()
	if err != nil {
		return nil, err
	}
	return c.guard.call(path, func(r *callResult) error {
		var err error
		if e := root.Control(func(dir uintptr) {
			r.fd, err = inroot.Open(int(dir), path, flags&syscall.O_NOFOLLOW != 0)
		}); e != nil {
			return e
		}
		if err != nil {
			return err
		}
		return r.inspect()
	})
}

// open opens a file of the container, as the Open of a sysfile.Reader. With O_PATH
// it opens any file, or a link of /dev. Otherwise it opens the file for reading;
// the file must be of the kernel and be readable by all users.
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

// inNetworkNamespace calls f in the network name space of the container, on a
// thread of its own.
func (c *container) inNetworkNamespace(f func() error) error {
	return onOwnThread(func() (bool, error) {
		// /proc/self is the first thread of the process, not this one.
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

// onOwnThread calls f on a thread that no other goroutine uses. Afterwards the
// thread ends, unless f returns that it has restored the state of the thread. The
// first thread of the process is not used, because /proc/self shows its name
// spaces as those of the process.
func onOwnThread(f func() (restored bool, err error)) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if syscall.Gettid() == syscall.Getpid() {
			defer runtime.UnlockOSThread()
			done <- onOwnThread(f) // on another thread, because this one is locked
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
