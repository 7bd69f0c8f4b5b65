package mmv

import (
	"os"
	"path/filepath"
)

// A file is an MMV file that this process has written.
type file struct {
	path    string
	temp    string // its name until rename
	info    os.FileInfo
	mapping *mapping
}

// createFile writes a file under a name that the agent ignores, and maps it.
func createFile(path string, contents []byte) (f *file, err error) {
	dir, name := filepath.Split(path)
	temp, err := os.CreateTemp(dir, "."+name+".*")
	if err != nil {
		return nil, err
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
	return &file{path: path, temp: temp.Name(), info: info, mapping: m}, nil
}

// rename gives the file its name, or removes it.
func (f *file) rename() error {
	err := os.Rename(f.temp, f.path)
	if err != nil {
		os.Remove(f.temp)
	}
	return err
}

// isThere reports whether the name is that of this file, and not of another one by now.
func (f *file) isThere() bool {
	info, err := os.Stat(f.path)
	return err == nil && os.SameFile(info, f.info)
}
