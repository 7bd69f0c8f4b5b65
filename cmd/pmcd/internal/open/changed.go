package open

import "os"

// changes returns a function that reports, once for each change, that path is
// another file than it is now. A file that is gone has not changed: there is
// nothing new to run.
func changes(path string) func() bool {
	loaded, err := os.Stat(path)
	reported := loaded
	return func() bool {
		now, err2 := os.Stat(path)
		if err != nil || err2 != nil || same(now, reported) {
			return false
		}
		reported = now
		return !same(now, loaded)
	}
}

func same(a, b os.FileInfo) bool {
	return a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
