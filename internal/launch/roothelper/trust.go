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

// An Untrusted is a file, directory or link that users other than root can change
// and that determines what an agent executes. Such an agent must not have root's
// rights.
type Untrusted struct {
	Path   string // of the file, directory or link
	Config bool   // it determines the configuration file: then no agent is trusted

	by byte // the reason: one of the following
	id uint32
}

// Reasons why a path is not trusted.
const (
	byOwner     = 'u' // its owner can change it; id is the user
	byGroup     = 'g' // its group can change it; id is the group
	byAll       = 'o' // all users can change it
	bySticky    = 's' // a directory with the sticky bit: all users can create files in it
	notRegular  = 'x' // it is not a regular file, so its contents are not known
	notExamined = '?' // it could not be examined; id is an error number
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

// Known reports whether it is certain that others can change it. If not, this
// process could not find out.
func (e *Untrusted) Known() bool { return e.by != notExamined }

// Remedy returns a command, or advice, by which only root can change e.Path. Other
// paths may need the same afterwards.
func (e *Untrusted) Remedy() string {
	switch e.by {
	case byOwner:
		return "chown -h root " + e.Path
	case byGroup, byAll:
		return "chmod go-w " + e.Path
	}
	return "name a file in a directory that only root can write to"
}

// encode returns e as the text of a message.
func (e *Untrusted) encode() string {
	config := byte('a')
	if e.Config {
		config = 'c'
	}
	return fmt.Sprintf("%c%c%d %s", config, e.by, e.id, e.Path)
}

// parseUntrusted is the inverse of encode. The path may have been cut off.
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

// maxLinks is how many symbolic links a path may have. The kernel has the same
// limit.
const maxLinks = 40

// A use is what a path is used for. It determines which kinds of files are
// allowed.
type use int

const (
	toRead     use = iota // a file that is read or executed
	asArgument            // an argument of a program, which may be the path of code
)

// checkPath returns an *Untrusted if a user other than root can change a file or
// replace it by another one. The file, and each directory and link on the way to
// it, must belong to root, and must not be writable by its group or others. A
// directory further up may be writable if it has the sticky bit: then others can
// create files in it, but cannot replace those of root. The directory of the file, or
// of a link to it, may not: interpreters and programs load files from there, too, such
// as modules of Python. Write permission by an
// access control list shows as that of the group. uid may own files as root may; it
// is 0 except in tests.
//
// An argument may also be a directory, if only root can create files in it. It may
// be a device, a socket or a FIFO, whose own owner and mode do not matter. It need
// not exist, if only root can create it. For all of these the directories on the
// way are checked: in a directory of their own, others could replace a FIFO by a
// file.
//
// Any other error says why the file cannot be used. Since only root can change the
// path and the file, a result of nil is still valid when the file is used.
func checkPath(path string, use use, uid uint32) error {
	if !filepath.IsAbs(path) {
		wd, err := os.Getwd()
		if err != nil {
			return err
		}
		path = wd + "/" + path // not Clean: ".." after a link is in another directory
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
			// dir.path has no links in it, and its parent has been checked.
			if dir, err = examine(filepath.Dir(dir.path), uid); err != nil {
				return err
			}
			continue
		}
		next, err := examine(filepath.Join(dir.path, name), uid)
		switch {
		case errors.Is(err, fs.ErrNotExist) && use == asArgument:
			return dir.checkWrite() // allowed if only root can create it
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
			if len(rest) == 0 {
				if err := dir.checkWrite(); err != nil {
					return err
				}
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
			if err := dir.checkWrite(); err != nil {
				return err
			}
			return next.checkWrite()
		case use == asArgument: // not a regular file: allowed if only root can replace it
			if dir.checkWrite() != nil {
				return next.checkOwner() // with the sticky bit only its owner can
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

// lookupError returns the error of checkPath for err, an error of a system call. It
// is nil if err means that an argument can never be the path of a file: only root
// can change the directories on the way.
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

// An examined is the result of examine. The path has no links in it, except that
// its last element may be one.
type examined struct {
	path string
	info fs.FileInfo
	uid  uint32 // is trusted like root
}

// examine returns what is at path.
func examine(path string, uid uint32) (examined, error) {
	info, err := os.Lstat(path)
	return examined{path, info, uid}, err
}

// checkOwner returns an *Untrusted if it does not belong to root.
func (e examined) checkOwner() error {
	if st := e.info.Sys().(*syscall.Stat_t); st.Uid != 0 && st.Uid != e.uid {
		return &Untrusted{Path: e.path, by: byOwner, id: st.Uid}
	}
	return nil
}

// checkWriteUnlessSticky returns an *Untrusted if others can change it or replace
// files of root in it. In a directory with the sticky bit others may create files.
func (e examined) checkWriteUnlessSticky() error {
	if e.info.IsDir() && e.info.Mode()&fs.ModeSticky != 0 {
		return e.checkOwner()
	}
	return e.checkWrite()
}

// checkWrite returns an *Untrusted if others can change it or create files in it.
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
