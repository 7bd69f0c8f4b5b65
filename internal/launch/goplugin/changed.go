package goplugin

import "os"

// Changes returns a function that reports, once for each change, that path is another file
// than loaded, which may be nil if there was none. A file that is gone has not changed: there
// is nothing new to run. It is not for concurrent use.
func Changes(path string, loaded os.FileInfo) func() bool {
	reported := loaded
	return func() bool {
		now, err := os.Stat(path)
		if loaded == nil || err != nil || sameFile(now, reported) {
			return false
		}
		reported = now
		return !sameFile(now, loaded)
	}
}

// sameFile reports whether two results of stat of a path are of the same contents.
func sameFile(a, b os.FileInfo) bool {
	return a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
