package root

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"syscall"

	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// Limits of files, in bytes.
const (
	maxStore  = 16 << 20 // containers.json
	maxConfig = 4 << 20  // the configuration of a container
	maxSmall  = 64 << 10 // files with one value, or one value a line
)

// readHead returns the first limit bytes of a regular file; none if it cannot be read.
func readHead(path string, limit int64) []byte {
	f, err := regular.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, limit))
	return b
}

// readNames returns the names in a directory, at most limit, without those that begin
// with a dot. It returns none if the directory cannot be read.
func readNames(dir string, limit int) []fs.DirEntry {
	f, err := regular.OpenDir(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	list, _ := f.ReadDir(limit)
	return slices.DeleteFunc(list, func(e fs.DirEntry) bool { return e.Name()[0] == '.' })
}

// A files remembers what files parse to, by path, while they do not change.
type files struct {
	parsed map[string]*parsedFile
}

type parsedFile struct {
	stat  syscall.Stat_t
	value any
	err   error
	used  bool // since the last forget
}

// parse returns what f makes of the contents of a file. If the file is as it was, it
// returns what f made of it then.
func parse[T any](p *files, path string, limit int64, f func(b []byte) (T, error)) (T, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		delete(p.parsed, path)
		var none T
		return none, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if old := p.parsed[path]; old != nil && old.stat.Mtim == st.Mtim && old.stat.Ctim == st.Ctim &&
		old.stat.Size == st.Size && old.stat.Ino == st.Ino && old.stat.Dev == st.Dev {
		old.used = true
		return old.value.(T), old.err
	}
	b, err := regular.ReadFile(path, limit)
	var value T
	if err == nil {
		if value, err = f(b); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if p.parsed == nil {
		p.parsed = make(map[string]*parsedFile)
	}
	p.parsed[path] = &parsedFile{st, value, err, true}
	return value, err
}

// forget forgets the files that were not used since the last call.
func (p *files) forget() {
	for path, f := range p.parsed {
		if !f.used {
			delete(p.parsed, path)
		}
		f.used = false
	}
}
