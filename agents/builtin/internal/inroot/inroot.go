// Package inroot opens files below a directory as if it were the root directory, for
// agents that run as root and look into containers: no symbolic link leads out of it.
package inroot

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/kernel"
)

// Open opens path with O_PATH: the result says what the file is, and has no effect on it.
// dir is a descriptor of the directory. If nofollow is set and path is a link, Open opens
// the link itself. Links of /proc to files of processes are not followed.
//
// It uses openat2(2). Without that, as under RestrictSUIDSGID= of systemd, which cannot see
// what the call would do, Open goes from directory to directory by itself, and follows no
// links out of dir either. It does the same after EAGAIN, which means that the path has ".."
// and that something on the host was renamed or mounted meanwhile.
func Open(dir int, path string, nofollow bool) (fd int, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if nofollow {
		how.Flags |= unix.O_NOFOLLOW
	}
	fd, err = unix.Openat2(dir, path, &how)
	if kernel.Lacks(err) || err == syscall.EAGAIN {
		return walk(dir, path, nofollow)
	}
	return fd, err
}

// Limits of walk; the first two are similar to those of the kernel. It has the directories
// on the way open, which the owner of dir could nest as deeply as there are descriptors.
const (
	maxLinks = 40
	maxParts = 4096
	maxDepth = 128
)

// walk is Open without openat2. It opens each part of the path without following it, and
// goes back to a directory that it has opened for "..", so what others rename meanwhile
// does not lead it out of dir. It follows a link of /proc by its text, below dir.
func walk(dir int, path string, nofollow bool) (int, error) {
	if path == "" {
		return -1, syscall.ENOENT
	}
	w := &walker{dir: dir}
	defer w.back(0)
	links := 0
	rest := strings.Split(path, "/")
	for parts := 0; len(rest) > 0; parts++ {
		if parts == maxParts {
			return -1, syscall.ELOOP
		}
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			w.back(max(len(w.opened)-1, 0))
			continue
		}
		kind, err := w.open(part)
		if err != nil {
			return -1, err
		}
		switch last := len(rest) == 0; {
		case kind == unix.S_IFLNK && !(last && nofollow):
			if links++; links > maxLinks {
				return -1, syscall.ELOOP
			}
			target, err := w.follow()
			if err != nil {
				return -1, err
			}
			rest = append(strings.Split(target, "/"), rest...)
		case kind != unix.S_IFDIR && !last:
			return -1, syscall.ENOTDIR
		}
	}
	if len(w.opened) == 0 {
		return unix.Openat(dir, ".", unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	fd := w.last()
	w.opened = w.opened[:len(w.opened)-1]
	return fd, nil
}

// A walker is on its way to a file below dir.
type walker struct {
	dir    int
	opened []int // what is on the way; all but the last are directories
}

func (w *walker) last() int {
	if len(w.opened) == 0 {
		return w.dir
	}
	return w.opened[len(w.opened)-1]
}

// back closes all but the first n of what is opened.
func (w *walker) back(n int) {
	for _, fd := range w.opened[n:] {
		syscall.Close(fd)
	}
	w.opened = w.opened[:n]
}

// open opens a file of the last directory, and returns what it is (S_IFMT).
func (w *walker) open(name string) (kind uint32, err error) {
	if len(w.opened) == maxDepth {
		return 0, syscall.ENAMETOOLONG
	}
	fd, err := unix.Openat(w.last(), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	w.opened = append(w.opened, fd)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return st.Mode & unix.S_IFMT, err
}

// follow returns the text of the link that was opened last, and goes back to where that begins.
func (w *walker) follow() (target string, err error) {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(w.last(), "", b)
	switch {
	case err != nil:
		return "", err
	case n == len(b):
		return "", syscall.ENAMETOOLONG
	}
	if w.back(len(w.opened) - 1); b[0] == '/' {
		w.back(0)
	}
	return string(b[:n]), nil
}
