// Package safepath has root reach directories without following links that other users can have
// made. Where another user may write, such as in PCP's directories for logs and saved files, a
// directory that root is about to enter may have been replaced by a link to /etc.
//
// It is about the way to a directory. A name in the directory that it returns is still one that others
// may have linked: create files with O_EXCL, open them with O_NOFOLLOW, and change owners and
// modes by descriptors only. rename(2), unlink(2), mkdir(2) and bind(2) do not follow such a link.
//
// For a process that is not root's, all paths stay as they are: a link gives it no rights that the
// user did not have.
package safepath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrLink is the error for a link that another user can have made.
var ErrLink = errors.New("a link in a directory that other users may write to")

// A Dir is a directory that a process is about to change.
type Dir struct {
	// Path leads to the directory for as long as Close has not been called, whatever other users
	// do. It is the path that was given if only root can change where that leads. Otherwise it is
	// that of a descriptor, in /proc/self/fd.
	Path string
	// Fixed is true if Path is the path that was given.
	Fixed bool
	// Private is true if only root may write to the directory.
	Private bool

	given string
	fd    int // -1 if there is none
}

// Open opens a directory. The error wraps ErrLink if the way to it has a link that another user
// can have made.
func Open(dir string) (*Dir, error) { return open(dir, os.Geteuid(), nil) }

// Make is Open. It makes the directory, and those above it, if they do not exist.
func Make(dir string, perm fs.FileMode) (*Dir, error) { return open(dir, os.Geteuid(), &perm) }

// OpenParent opens the directory of a file and returns the file's path in it.
func OpenParent(path string) (d *Dir, file string, err error) {
	d, err = Open(filepath.Dir(path))
	if e, ok := err.(*fs.PathError); ok && e.Err != ErrLink {
		e.Path = path
	}
	if err != nil {
		return nil, "", err
	}
	return d, d.Join(filepath.Base(path)), nil
}

// Remove removes a file or an empty directory.
func Remove(path string) error {
	d, file, err := OpenParent(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Err(os.Remove(file))
}

// Join returns the path of a name in the directory.
func (d *Dir) Join(name string) string { return filepath.Join(d.Path, name) }

// Close closes the descriptor.
func (d *Dir) Close() {
	if d.fd >= 0 {
		syscall.Close(d.fd)
		d.fd = -1
	}
}

// Err returns err, an error of a function that was given a path in the directory, with the path
// that users know.
func (d *Dir) Err(err error) error {
	if d.Fixed {
		return err
	}
	known := func(path string) string {
		if rest, ok := strings.CutPrefix(path, d.Path); ok {
			return d.given + rest
		}
		return path
	}
	switch e := err.(type) {
	case *fs.PathError:
		return &fs.PathError{Op: e.Op, Path: known(e.Path), Err: e.Err}
	case *os.LinkError:
		return &os.LinkError{Op: e.Op, Old: known(e.Old), New: known(e.New), Err: e.Err}
	}
	return err
}

// maxLinks is how many symbolic links a path may have. The kernel has the same limit.
const maxLinks = 40

// A walk follows a path from the root directory or the working directory on.
type walk struct {
	uid     int    // the user whose files are trusted as those of root are
	fd      int    // of the directory that has been reached
	path    string // of this directory, which leads to it if fixed is true
	root    bool   // the walk has begun at the root directory
	fixed   bool   // only root can change where the path so far leads
	private bool   // only root can change what is in the directory
	sticky  bool   // others may create files in it, and only root can replace those of root
}

// open opens a directory for a process of the user uid, and makes it if perm is not nil.
func open(dir string, uid int, perm *fs.FileMode) (*Dir, error) {
	if uid != 0 {
		if perm != nil {
			if err := os.MkdirAll(dir, *perm); err != nil {
				return nil, err
			}
		}
		return &Dir{Path: dir, Fixed: true, given: dir, fd: -1}, nil
	}
	return openFor(dir, uid, perm)
}

// openFor is open with the user whose files are trusted as those of root are.
func openFor(dir string, uid int, perm *fs.FileMode) (*Dir, error) {
	w := &walk{uid: uid, fd: -1}
	err := w.begin(filepath.IsAbs(dir))
	if err == nil {
		err = w.follow(dir, perm)
	}
	if err != nil {
		syscall.Close(w.fd)
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	d := &Dir{Path: dir, Fixed: w.fixed, Private: w.fixed && w.private, given: dir, fd: -1}
	if w.fixed {
		syscall.Close(w.fd)
	} else {
		d.fd, d.Path = w.fd, fmt.Sprintf("/proc/self/fd/%d", w.fd)
	}
	return d, nil
}

// follow goes to the directory that a path leads to from here.
func (w *walk) follow(path string, perm *fs.FileMode) error {
	links := 0
	for names := strings.Split(path, "/"); len(names) > 0; {
		name := names[0]
		names = names[1:]
		if name == "" || name == "." {
			continue
		}
		link, err := w.enter(name, perm)
		if err != nil {
			return err
		}
		if link == "" {
			continue
		}
		if links++; links > maxLinks {
			return syscall.ELOOP
		}
		names = append(strings.Split(link, "/"), names...)
		if link[0] == '/' {
			if err := w.begin(true); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin goes to the root directory, or to the working directory.
func (w *walk) begin(root bool) error {
	w.path = "./"
	if root {
		w.path = "/"
	}
	fd, err := openat(atFDCWD, w.path, syscall.O_DIRECTORY)
	if err != nil {
		return err
	}
	w.fixed, w.root = true, root
	return w.reach(fd)
}

// enter goes to a directory in the one that has been reached, which it makes if there is none and
// perm is not nil. If name is a link, enter goes nowhere and returns what it leads to.
func (w *walk) enter(name string, perm *fs.FileMode) (link string, err error) {
	fd, err := openat(w.fd, name, 0)
	if err == syscall.ENOENT && perm != nil {
		if err = syscall.Mkdirat(w.fd, name, uint32(perm.Perm())); err == nil || err == syscall.EEXIST {
			fd, err = openat(w.fd, name, 0)
		}
	}
	if err != nil {
		return "", err
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		syscall.Close(fd)
		return "", err
	}
	fixed := w.fixed && (w.private || w.sticky && w.trusts(st.Uid))
	if name == ".." {
		fixed = w.fixed && w.root // others may move the working directory
	}
	if st.Mode&syscall.S_IFMT == syscall.S_IFLNK {
		defer syscall.Close(fd)
		if !fixed {
			return "", ErrLink
		}
		return os.Readlink(w.path + name)
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		syscall.Close(fd)
		return "", syscall.ENOTDIR
	}
	w.fixed = fixed
	w.path += name + "/"
	return "", w.reach(fd)
}

// reach takes the directory fd as the one that has been reached.
func (w *walk) reach(fd int) error {
	if w.fd >= 0 {
		syscall.Close(w.fd)
	}
	w.fd = fd
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return err
	}
	others := st.Mode&0o002 != 0 || st.Mode&0o020 != 0 && st.Gid != 0
	w.private = w.trusts(st.Uid) && !others
	w.sticky = w.trusts(st.Uid) && st.Mode&syscall.S_ISVTX != 0
	return nil
}

func (w *walk) trusts(uid uint32) bool {
	return uid == 0 || int(uid) == w.uid || uid == overflowUID && !isMapped(uid)
}

// overflowUID is the user as whose files the kernel shows those of users that the user namespace does
// not have (/proc/sys/kernel/overflowuid). In a namespace of one user (unshare -r) the root
// directory is such a file. No process of the namespace can be another user that owns it, and what is root
// there has no rights of the host's root.
const overflowUID = 65534

// isMapped reports whether the user namespace has a user, or it is not known.
func isMapped(uid uint32) bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	return err != nil || inMap(string(b), uid)
}

// inMap is isMapped with the content of uid_map (user_namespaces(7)).
func inMap(text string, uid uint32) bool {
	for line := range strings.Lines(text) {
		var first, outside, n uint64
		if _, err := fmt.Sscan(line, &first, &outside, &n); err != nil || first <= uint64(uid) && uint64(uid) < first+n {
			return true
		}
	}
	return false
}

// What package syscall lacks. Package unix would be one more that plugins of agents depend on.
const (
	atFDCWD     = -0x64
	atEmptyPath = 0x1000
	oPath       = 0x200000
)

// openat opens a file or a link without any effect on it.
func openat(dir int, name string, flag int) (fd int, err error) {
	for {
		fd, err = syscall.Openat(dir, name, oPath|syscall.O_NOFOLLOW|syscall.O_CLOEXEC|flag, 0)
		if err != syscall.EINTR {
			return fd, err
		}
	}
}
