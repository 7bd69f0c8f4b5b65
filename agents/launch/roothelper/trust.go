package roothelper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// An Untrusted is what others than root can change of what an agent would
// execute. Such an agent must not have root's rights.
type Untrusted struct {
	Path   string // of the file, directory or link
	Config bool   // it decides on the configuration file: no agent is trusted

	by byte // who can change it, as below
	id uint32
}

// Those who can change something.
const (
	byOwner     = 'u' // id is the user
	byGroup     = 'g' // id is the group
	byAll       = 'o'
	bySticky    = 's' // all: it is a directory in which everybody makes files
	notRegular  = 'x' // no regular file: what it has is not known
	notExamined = '?' // id is an error number
)

func (e *Untrusted) Error() string {
	name := fmt.Sprint(e.id)
	switch e.by {
	case byOwner:
		if u, err := user.LookupId(name); err == nil {
			name = u.Username
		}
		return fmt.Sprintf("%s is writable by user %s", e.Path, name)
	case byGroup:
		if g, err := user.LookupGroupId(name); err == nil {
			name = g.Name
		}
		return fmt.Sprintf("%s is writable by group %s", e.Path, name)
	case notRegular:
		return fmt.Sprintf("%s is not a regular file", e.Path)
	case notExamined:
		return fmt.Sprintf("%s cannot be examined: %v", e.Path, syscall.Errno(e.id))
	}
	return fmt.Sprintf("%s is writable by all users", e.Path)
}

// Known reports whether others can change it for certain: else this process could
// not find out.
func (e *Untrusted) Known() bool { return e.by != notExamined }

// Remedy says what makes root's part of it. Others may have to be cured after it.
func (e *Untrusted) Remedy() string {
	switch e.by {
	case byOwner:
		return "chown -h root " + e.Path
	case byGroup, byAll:
		return "chmod go-w " + e.Path
	}
	return "name a file in a directory that only root can write to"
}

// encode is e in a message.
func (e *Untrusted) encode() string {
	config := byte('a')
	if e.Config {
		config = 'c'
	}
	return fmt.Sprintf("%c%c%d %s", config, e.by, e.id, e.Path)
}

// parseUntrusted is the inverse of text, which may have been cut off at its end.
func parseUntrusted(text string) (*Untrusted, error) {
	head, path, ok := strings.Cut(text, " ")
	if !ok || len(head) < 3 {
		return nil, fmt.Errorf("%w: %q", errMessage, text)
	}
	id, err := strconv.ParseUint(head[2:], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%w: %q", errMessage, text)
	}
	return &Untrusted{Path: path, Config: head[0] == 'c', by: head[1], id: uint32(id)}, nil
}

// maxLinks is how many symbolic links a path may go through, as for the kernel.
const maxLinks = 40

// A use is what a path is for, which decides on what it may be.
type use int

const (
	toRead     use = iota // a file that is read, or executed
	asArgument            // what a program may take for code, or not
)

// checkPath reports why a user other than root could change what is in a file,
// or put another in its place: the file, and each directory and link on the way
// to it, must belong to root, and neither its group nor others may write to it.
// In a directory with the sticky bit they may: they can add to it, but not
// replace what is root's. Write permission by an access control list is seen as
// that of the group. uid may own things as root may; it is 0 but in tests.
//
// An argument may be a directory, to which only root may be able to add anything; or
// a device, a socket or a FIFO, whose own owner and mode do not count; or
// nothing, if only root can make it something. The directories on the
// way count for all of these: in a directory of their own others could replace a
// FIFO by a file.
//
// The error is an *Untrusted, or says why a file cannot be used. Since only
// root can change any of it, nil still holds when the file is used.
func checkPath(path string, use use, uid uint32) error {
	if !filepath.IsAbs(path) {
		wd, err := os.Getwd()
		if err != nil {
			return err
		}
		path = wd + "/" + path // and not Clean: ".." after a link is another directory
	}
	dir, err := examine("/", uid)
	if err != nil {
		return err
	}
	rest := strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			// There are no links in it, and it has been looked at.
			if dir, err = examine(filepath.Dir(dir.path), uid); err != nil {
				return err
			}
			continue
		}
		next, err := examine(filepath.Join(dir.path, name), uid)
		switch {
		case errors.Is(err, fs.ErrNotExist) && use == asArgument:
			return dir.checkWrite() // only root can make it
		case err != nil:
			return lookupError(err, use)
		}
		switch mode := next.info.Mode().Type(); {
		case mode == fs.ModeSymlink:
			if links++; links > maxLinks {
				return lookupError(&fs.PathError{Op: "lstat", Path: path, Err: syscall.ELOOP}, use)
			}
			if err := next.checkOwner(); err != nil {
				return err
			}
			to, err := os.Readlink(next.path)
			if err != nil {
				return err
			}
			if filepath.IsAbs(to) {
				if dir, err = examine("/", uid); err != nil {
					return err
				}
			}
			rest = append(strings.Split(to, "/"), rest...)
		case mode == fs.ModeDir:
			if err := next.checkWriteUnlessSticky(); err != nil {
				return err
			}
			dir = next
		case len(rest) > 0 && use == toRead:
			return &fs.PathError{Op: "lstat", Path: next.path, Err: syscall.ENOTDIR}
		case mode == 0 && len(rest) == 0:
			return next.checkWriteUnlessSticky()
		case use == asArgument: // no file, and only root can replace it by one
			if dir.checkWrite() != nil {
				return next.checkOwner() // the sticky bit keeps what is root's
			}
			return nil
		default:
			return &Untrusted{Path: next.path, by: notRegular}
		}
	}
	if use == asArgument {
		return dir.checkWrite()
	}
	return &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
}

// lookupError is err, which says that there is no such file; nil if that is true for
// ever of an argument: what is on the way has been found to be root's.
func lookupError(err error, use use) error {
	var path *fs.PathError
	var errno syscall.Errno
	switch {
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENAMETOOLONG):
		if use == asArgument {
			return nil
		}
	case errors.Is(err, fs.ErrNotExist):
	case errors.As(err, &path) && errors.As(err, &errno):
		return &Untrusted{Path: path.Path, by: notExamined, id: uint32(errno)}
	}
	return err
}

// An examined is what was found at a path, which has no links before its last
// name.
type examined struct {
	path string
	info fs.FileInfo
	uid  uint32 // that counts as root
}

func examine(path string, uid uint32) (examined, error) {
	info, err := os.Lstat(path)
	return examined{path, info, uid}, err
}

// checkOwner reports why it is not root's.
func (e examined) checkOwner() error {
	if st := e.info.Sys().(*syscall.Stat_t); st.Uid != 0 && st.Uid != e.uid {
		return &Untrusted{Path: e.path, by: byOwner, id: st.Uid}
	}
	return nil
}

// checkWriteUnlessSticky reports how others can change it, or what is root's in it.
func (e examined) checkWriteUnlessSticky() error {
	if e.info.IsDir() && e.info.Mode()&fs.ModeSticky != 0 {
		return e.checkOwner()
	}
	return e.checkWrite()
}

// checkWrite reports how others can change it, or make something in it.
func (e examined) checkWrite() error {
	if err := e.checkOwner(); err != nil {
		return err
	}
	st := e.info.Sys().(*syscall.Stat_t)
	switch mode := e.info.Mode(); {
	case mode&0o022 == 0:
		return nil
	case e.info.IsDir() && mode&fs.ModeSticky != 0:
		return &Untrusted{Path: e.path, by: bySticky}
	case mode&0o002 != 0:
		return &Untrusted{Path: e.path, by: byAll}
	default:
		return &Untrusted{Path: e.path, by: byGroup, id: st.Gid}
	}
}
