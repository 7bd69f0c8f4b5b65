package reload

import (
	"os"
	"time"
)

// A fileVersion identifies a version of a file.
type fileVersion struct {
	size  int64
	mtime time.Time
	dir   bool
	err   string // of stat
}

// versionOf returns the current version of a file.
func versionOf(path string) fileVersion {
	fi, err := os.Stat(path)
	if err != nil {
		return fileVersion{err: err.Error()}
	}
	return fileVersion{size: fi.Size(), mtime: fi.ModTime(), dir: fi.IsDir()}
}

func (s fileVersion) String() string {
	if s.err != "" {
		return s.err
	}
	return s.mtime.Format(time.RFC3339Nano)
}
