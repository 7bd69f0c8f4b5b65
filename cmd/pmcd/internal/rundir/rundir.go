// Package rundir finds the directories for the sockets and logs of a pmcd that has no
// configuration of PCP.
package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Find returns a directory for files of this user, and creates it if it does not exist. It
// tries system, for root only, then one in $XDG_RUNTIME_DIR, and then one in $TMPDIR, and returns the
// first one that can be used.
func Find(system string, uid int, getenv func(string) string) (string, error) {
	var why []string
	for _, d := range candidates(system, uid, getenv) {
		err := makeOwn(d.path, d.mode, uid)
		if err == nil {
			return d.path, nil
		}
		why = append(why, err.Error())
	}
	return "", errors.New(strings.Join(why, "; "))
}

// An ownedDir is a directory for files of one user.
type ownedDir struct {
	path string
	mode fs.FileMode // if it has to be made
}

// candidates returns the directories that Find tries, in that order.
func candidates(system string, uid int, getenv func(string) string) (dirs []ownedDir) {
	if uid == 0 {
		dirs = append(dirs, ownedDir{system, 0o755})
	}
	if run := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(run) {
		dirs = append(dirs, ownedDir{filepath.Join(run, "pcp"), 0o700})
	}
	tmp := getenv("TMPDIR")
	if !filepath.IsAbs(tmp) {
		tmp = "/tmp"
	}
	return append(dirs, ownedDir{filepath.Join(tmp, fmt.Sprintf("pcp-%d", uid)), 0o700})
}

// makeOwn creates a directory, or accepts an existing one. It returns an error if a user
// other than uid and root can have created the directory, or can change files in it: in
// /tmp, another user may have created a directory or a link of that name before.
func makeOwn(path string, mode fs.FileMode, uid int) error {
	if err := checkParent(path, uid); err != nil {
		return err
	}
	if err := os.Mkdir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return checkOwn(path, uid)
}

// checkOwn returns an error if path is not a directory that only uid can use.
func checkOwn(path string, uid int) error {
	fi, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !fi.IsDir():
		return fmt.Errorf("%s: not a directory", path)
	case owner(fi) != uid:
		return fmt.Errorf("%s: belongs to user %d", path, owner(fi))
	case fi.Mode()&0o022 != 0:
		return fmt.Errorf("%s: others can write to it", path)
	}
	if err := syscall.Access(path, 0x3); err != nil { // W_OK|X_OK
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// checkParent returns an error if a user other than uid and root can replace the file at
// path.
func checkParent(path string, uid int) error {
	parent, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	if by := owner(parent); by != uid && by != 0 || parent.Mode()&0o002 != 0 && parent.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("%s: others can replace it", path)
	}
	return nil
}

func owner(fi fs.FileInfo) int { return int(fi.Sys().(*syscall.Stat_t).Uid) }

// Sockets returns the paths that the Unix domain socket of a pmcd on this host may have,
// the most likely first: PMCD_SOCKET alone if it is set; in PCP_RUN_DIR, which PCP's
// configuration sets; in the directories that a pmcd of this user would use, if they exist
// and only this user can change them; and in /run/pcp.
func Sockets(root string, uid int, getenv func(string) string) []string {
	if path := getenv("PMCD_SOCKET"); path != "" {
		return []string{path}
	}
	system := filepath.Join(root, "run/pcp")
	var dirs []string
	if dir := getenv("PCP_RUN_DIR"); dir != "" {
		dirs = append(dirs, dir)
	}
	for _, d := range candidates(system, uid, getenv) {
		// Any user can make a directory in /tmp, and answer there in place of a pmcd.
		if d.path == system || checkParent(d.path, uid) == nil && checkOwn(d.path, uid) == nil {
			dirs = append(dirs, d.path)
		}
	}
	var paths []string
	for _, dir := range append(dirs, system) {
		if path := filepath.Join(dir, "pmcd.socket"); !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}
