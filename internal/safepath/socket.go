package safepath

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
)

// Listen listens at a Unix domain socket with these permissions. They are set by the umask and not by a
// chmod(2) of the path: what has the path by then may be a link to any file.
func Listen(path string, perm fs.FileMode) (ln *net.UnixListener, err error) {
	d, file, err := OpenParent(path)
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = os.NewSyscallError("bind", e.Err)
		}
		return nil, &net.OpError{Op: "listen", Net: "unix", Addr: &net.UnixAddr{Name: path, Net: "unix"}, Err: err}
	}
	defer d.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// A thread of its own, which ends with the goroutine, has a umask of its
		// own. Where that is forbidden the umask is that of all threads for a moment.
		runtime.LockOSThread()
		if unshare() != nil {
			umask.Lock()
			defer umask.Unlock()
		}
		defer syscall.Umask(syscall.Umask(int(^perm.Perm() & 0o777)))
		ln, err = net.ListenUnix("unix", &net.UnixAddr{Name: file, Net: "unix"})
	}()
	<-done
	return ln, err
}

// unshare gives this thread a umask of its own. Tests replace it.
var unshare = func() error { return syscall.Unshare(syscall.CLONE_FS) }

// umask is for that of all threads: of two calls of Listen at a time, one would leave the umask of
// the other behind.
var umask sync.Mutex

// ErrNotOwn is the error of Give for a file that is not the socket that this process has made.
var ErrNotOwn = errors.New("another file has taken its place")

// Give gives a socket that this process has just made to another user. It does nothing if something else
// has its path: a link, a file of any other kind, which may be one of root from the same directory, a
// socket of another user, or one with another name.
func Give(path string, uid, gid int) error {
	d, file, err := OpenParent(path)
	if err != nil {
		return err
	}
	defer d.Close()
	fd, err := openat(atFDCWD, file, 0)
	if err != nil {
		return d.Err(&fs.PathError{Op: "open", Path: file, Err: err})
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFSOCK || int(st.Uid) != os.Geteuid() || st.Nlink != 1 {
		return &fs.PathError{Op: "chown", Path: path, Err: ErrNotOwn}
	}
	if err := syscall.Fchownat(fd, "", uid, gid, atEmptyPath); err != nil {
		return &fs.PathError{Op: "chown", Path: path, Err: err}
	}
	return nil
}
