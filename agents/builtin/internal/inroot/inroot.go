// Package inroot opens files below a directory as if it were the root directory, for
// agents that run as root and look into containers: no symbolic link leads out of it.
package inroot

import (
	"errors"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Open opens path with O_PATH: the result says what the file is, and has no effect on it.
// dir is a descriptor of the directory. If nofollow is set and path is a link, Open opens
// the link itself. Links of /proc to files of processes are not followed.
//
// It uses openat2(2). Where that fails with ENOSYS, as under RestrictSUIDSGID= of systemd,
// which cannot see what it would do, Open goes from directory to directory by itself. It
// does the same after EAGAIN, which means that the path has ".." and that something on the
// host was renamed or mounted meanwhile.
func Open(dir int, path string, nofollow bool) (fd int, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if nofollow {
		how.Flags |= unix.O_NOFOLLOW
	}
	fd, err = unix.Openat2(dir, path, &how)
	if errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EAGAIN) {
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
	var opened []int // directories on the way, below dir
	closeFrom := func(n int) {
		for _, fd := range opened[n:] {
			syscall.Close(fd)
		}
		opened = opened[:n]
	}
	defer func() { closeFrom(0) }()
	links, steps := 0, 0
	rest := strings.Split(path, "/")
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		if steps++; steps > maxParts {
			return -1, syscall.ELOOP
		}
		switch part {
		case "", ".":
			continue
		case "..":
			if len(opened) > 0 {
				closeFrom(len(opened) - 1)
			}
			continue
		}
		if len(opened) == maxDepth {
			return -1, syscall.ENAMETOOLONG
		}
		at := dir
		if len(opened) > 0 {
			at = opened[len(opened)-1]
		}
		fd, err := unix.Openat(at, part, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		opened = append(opened, fd)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return -1, err
		}
		last := len(rest) == 0
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			if last && nofollow {
				continue
			}
			if links++; links > maxLinks {
				return -1, syscall.ELOOP
			}
			b := make([]byte, unix.PathMax)
			n, err := unix.Readlinkat(fd, "", b)
			switch {
			case err != nil:
				return -1, err
			case n == len(b):
				return -1, syscall.ENAMETOOLONG
			}
			closeFrom(len(opened) - 1)
			if b[0] == '/' {
				closeFrom(0)
			}
			rest = append(strings.Split(string(b[:n]), "/"), rest...)
		case unix.S_IFDIR:
		default:
			if !last {
				return -1, syscall.ENOTDIR
			}
		}
	}
	if len(opened) == 0 {
		return unix.Openat(dir, ".", unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	fd := opened[len(opened)-1]
	opened = opened[:len(opened)-1]
	return fd, nil
}
