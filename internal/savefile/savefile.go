// Package savefile replaces the files in which agents save the ids of instances: a reader finds the
// old file or the new one, also after a crash.
package savefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gopcp/pmcd/internal/safepath"
)

// Replace replaces a file by a new one with the same owner and mode. Otherwise an
// agent that runs as root once would make the file unusable for one that does not.
// It makes the directory, and syncs the new file to disk before it has the name, and the name then.
// Root follows no link to the directory that another user can have made.
func Replace(path string, text []byte) error { return replace(path, text, (*os.File).Sync) }

// replace is Replace with a function that syncs a file to disk.
func replace(path string, text []byte, sync func(*os.File) error) (err error) {
	d, err := safepath.Make(filepath.Dir(path), 0o755)
	if err != nil {
		return err
	}
	defer d.Close()
	name := filepath.Base(path)
	f, err := os.CreateTemp(d.Path, "."+name+".*")
	if err != nil {
		return withPath(err, path)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = withPath(err, path)
		}
	}()
	mode := os.FileMode(0o644)
	if old, err := os.Lstat(d.Join(name)); err == nil && old.Mode().IsRegular() {
		mode = old.Mode().Perm()
		if st, ok := old.Sys().(*syscall.Stat_t); ok {
			f.Chown(int(st.Uid), int(st.Gid)) // only root may; otherwise the new file has our user
		}
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	// Without this, the rename may reach the disk before the contents.
	if err := sync(f); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), d.Join(name)); err != nil {
		return err
	}
	// Without this, the old file may be back after a crash, and its next id is one that clients know.
	open, err := os.Open(d.Path)
	if err != nil {
		return nil // the user may write to the directory and not read it
	}
	defer open.Close()
	if err := sync(open); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

// withPath replaces the name of the temporary file in err by path. The text of an
// error that persists is then the same each time, so callers can log it once.
func withPath(err error, path string) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: p.Op, Path: path, Err: p.Err}
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return &fs.PathError{Op: l.Op, Path: path, Err: l.Err}
	}
	return err
}
