package reload

import (
	"os"
	"time"
)

// A fileVersion is what tells one version of a file from another.
type fileVersion struct {
	size  int64
	mtime time.Time
	dir   bool
	err   string // of stat
}

// versionOf returns the version that is there now.
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
