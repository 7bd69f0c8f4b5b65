package privsep

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gopcp/pmcd/internal/safepath"
)

// dirMode is the mode of PCP's directories that members of its group may write to.
const dirMode = 0o775

// MakeDirs makes directories and gives them to the user, for a process that is still root's. It makes none
// below a directory that another user may write to: in those, MakeOwnDirs makes them later.
func (id *Identity) MakeDirs(dirs ...string) error {
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, id.makeDir(dir))
	}
	return errors.Join(errs...)
}

func (id *Identity) makeDir(dir string) error {
	above, name := filepath.Dir(dir), filepath.Base(dir)
	d, err := safepath.Open(above)
	if errors.Is(err, fs.ErrNotExist) && above != dir {
		// The directories above belong to root, as those of PCP's packages do.
		if d, err = safepath.Open(existing(above)); err == nil && d.Private {
			d.Close()
			d, err = safepath.Make(above, 0o755)
		}
	}
	if err != nil {
		return err
	}
	defer d.Close()
	if !d.Private {
		return nil
	}
	return d.Err(makeDir(d.Join(name), id.UID, id.GID))
}

// existing returns path or the lowest directory above it that exists.
func existing(path string) string {
	for filepath.Dir(path) != path {
		if _, err := os.Lstat(path); err == nil {
			break
		}
		path = filepath.Dir(path)
	}
	return path
}

// MakeOwnDirs makes directories for the user of this process.
func MakeOwnDirs(dirs ...string) error {
	var errs []error
	for _, dir := range dirs {
		d, err := safepath.Make(filepath.Dir(dir), dirMode)
		if err == nil {
			err = d.Err(makeDir(d.Join(filepath.Base(dir)), -1, -1))
			d.Close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// makeDir makes a directory, unless something has that path: an admin may have given a directory another
// mode. The mode and the owner are set by a descriptor, because others may replace the directory by a link.
func makeDir(path string, uid, gid int) error {
	if err := os.Mkdir(path, 0o700); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	err = f.Chmod(dirMode)
	if uid >= 0 && err == nil {
		err = f.Chown(uid, gid)
	}
	return err
}
