package mmv

import (
	"os"
	"path/filepath"

	"github.com/gopcp/pmcd/internal/safepath"
)

// A file is an MMV file that this process has written.
type file struct {
	path    string
	temp    string // its name in the directory until rename
	info    os.FileInfo
	mapping *mapping
}

// createFile writes a file under a name that the agent ignores, and maps it.
func createFile(path string, contents []byte) (f *file, err error) {
	d, err := safepath.Open(filepath.Dir(path)) // a program of root may write to a directory of PCP's user
	if err != nil {
		return nil, err
	}
	defer d.Close()
	temp, err := os.CreateTemp(d.Path, "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, d.Err(err)
	}
	defer temp.Close()
	defer func() {
		if err != nil {
			os.Remove(temp.Name())
		}
	}()
	// The agent may have another user, whatever the umask is.
	if err := temp.Chmod(0o644); err != nil {
		return nil, err
	}
	// A file that is written has its blocks. In a file with holes an update would end the
	// process by SIGBUS if the file system is full.
	if _, err := temp.Write(contents); err != nil {
		return nil, err
	}
	info, err := temp.Stat()
	if err != nil {
		return nil, err
	}
	m, err := newMapping(temp, len(contents))
	if err != nil {
		return nil, err
	}
	return &file{path: path, temp: filepath.Base(temp.Name()), info: info, mapping: m}, nil
}

// rename gives the file its name, or removes it.
func (f *file) rename() error {
	d, path, err := safepath.OpenParent(f.path)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := os.Rename(d.Join(f.temp), path); err != nil {
		os.Remove(d.Join(f.temp))
		return d.Err(err)
	}
	return nil
}

// isThere reports whether the name is that of this file, and not of another one by now.
func (f *file) isThere() bool {
	info, err := os.Stat(f.path)
	return err == nil && os.SameFile(info, f.info)
}
