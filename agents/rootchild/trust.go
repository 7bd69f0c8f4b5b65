package rootchild

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gopcp/pmcd/pmcdconf"
)

// maxLinks is how many symbolic links a path may go through, as for the kernel.
const maxLinks = 40

// trusted reports why somebody else than root could change what is in a file,
// or put another in its place: the file, and each directory and link on the way
// to it, must belong to root, and neither its group nor others may write to it.
// In a directory with the sticky bit they may: they can add to it, but not
// replace what is root's. Write permission by an access control list is seen as
// that of the group. uid may own things as root may; it is 0 but in tests.
//
// Since nobody else can change any of it, it still holds when the file is used.
func trusted(path string, uid uint32) error {
	if !filepath.IsAbs(path) {
		wd, err := os.Getwd()
		if err != nil {
			return err
		}
		path = wd + "/" + path // and not Clean: ".." after a link is another directory
	}
	dir, rest := "/", strings.Split(path, "/")
	if err := safe(dir, fs.ModeDir, uid); err != nil {
		return err
	}
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			dir = filepath.Dir(dir) // there are no links in it
			continue
		}
		next := filepath.Join(dir, name)
		fi, err := os.Lstat(next)
		if err != nil {
			return err
		}
		switch {
		case fi.Mode().Type() == fs.ModeSymlink:
			if links++; links > maxLinks {
				return &fs.PathError{Op: "lstat", Path: path, Err: syscall.ELOOP}
			}
			if err := owned(next, fi, uid); err != nil {
				return err
			}
			to, err := os.Readlink(next)
			if err != nil {
				return err
			}
			if filepath.IsAbs(to) {
				dir = "/"
			}
			rest = append(strings.Split(to, "/"), rest...)
		case len(rest) > 0:
			if err := safe(next, fs.ModeDir, uid); err != nil {
				return err
			}
			dir = next
		default:
			return safe(next, 0, uid)
		}
	}
	return fmt.Errorf("%s is a directory", path)
}

// safe reports why others can change the file or directory at path, which is no
// link.
func safe(path string, typ fs.FileMode, uid uint32) error {
	fi, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case fi.Mode().Type() != typ && typ == fs.ModeDir:
		return fmt.Errorf("%s is not a directory", path)
	case fi.Mode().Type() != typ:
		return fmt.Errorf("%s is not a file", path)
	}
	if err := owned(path, fi, uid); err != nil {
		return err
	}
	sticky := typ == fs.ModeDir && fi.Mode()&fs.ModeSticky != 0
	if fi.Mode()&0o022 != 0 && !sticky {
		return fmt.Errorf("%s can be written to by others than root (mode %04o)", path, fi.Mode().Perm())
	}
	return nil
}

func owned(path string, fi fs.FileInfo, uid uint32) error {
	if st := fi.Sys().(*syscall.Stat_t); st.Uid != 0 && st.Uid != uid {
		return fmt.Errorf("%s belongs to user %d and not to root", path, st.Uid)
	}
	return nil
}

// trustedProgram returns the program of a, or reports why somebody else than
// root could change what its process executes. That is the shared object; or the
// program and, as it may be an interpreter, what may be a script: the first
// argument that is no option, if it is a path or there is such a file.
func trustedProgram(a *pmcdconf.Agent, uid uint32) (string, error) {
	if a.Kind == pmcdconf.DSO {
		return "", trusted(a.Path, uid)
	}
	program, err := exec.LookPath(a.Argv[0])
	if err != nil {
		return "", err
	}
	if err := trusted(program, uid); err != nil {
		return "", err
	}
	for _, arg := range a.Argv[1:] {
		if strings.HasPrefix(arg, "-") {
			continue
		}
		// A path where there is nothing yet may have something a moment later.
		if _, err := os.Lstat(arg); err == nil || strings.Contains(arg, "/") {
			return program, trusted(arg, uid)
		}
		break
	}
	return program, nil
}
