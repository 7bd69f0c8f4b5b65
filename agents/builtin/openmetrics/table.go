package openmetrics

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/savefile"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// Limits of what is saved. Names are never forgotten, as numbers must not change, and names of
// containers come without end.
const (
	maxSavedFile = 64 << 20 // bytes
	maxNames     = 1 << 20  // in a file
	pickleFrame  = 16       // bytes of a file that are not of names, at most
)

// saveRetry is how long after a failure the agent tries again to write files.
const saveRetry = time.Minute

// notSaved is what an admin reads about numbers that are not saved.
const notSaved = "new numbers are not saved, and may be others when the agent starts again"

// A numberError says why a name has no number.
type numberError struct{ text string }

func (e *numberError) Error() string { return e.text }

var errFull = &numberError{"too many names have been saved"}

// A table numbers names: a name's number is its position in the list, for ever. The list is in a
// file, which is written before clients get a new number. If it cannot be written, the numbers last as
// long as the agent.
type table struct {
	path   string
	max    int // names
	names  []string
	prefix bool // names of instances begin with their number
	known  int  // the first names, whose numbers clients may know

	unsaved bool // not all known names are in the file

	// hidden is the error of a directory that may not be searched: whether there is a file is not known.
	hidden error

	index map[string]int32 // of names; nil until it is needed
	bytes int              // of the names in a file

	// If the file exists and cannot be used, it is not replaced: its numbers are in archives. No
	// name has a number until another file is there.
	damaged *numberError
	seen    fileState // of the damaged file
}

// A fileState says which contents a file has.
type fileState struct {
	ino, size      uint64
	changed, mtime time.Time
}

func stateOf(st fs.FileInfo) fileState {
	s := fileState{size: uint64(st.Size()), mtime: st.ModTime()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		s.ino, s.changed = sys.Ino, time.Unix(sys.Ctim.Unix())
	}
	return s
}

var errUnread = &numberError{"the saved numbers have not been read"}

// newTable returns the table of a file, which recheck reads.
func newTable(dir string, domain, serial, limit int) *table {
	return &table{path: filepath.Join(dir, fmt.Sprintf("%d.%d.py", domain, serial)), max: min(limit, maxNames), damaged: errUnread}
}

// readSaved reads a saved file. Tests replace it, and lstat.
var (
	readSaved = regular.ReadFile
	lstat     = os.Lstat
)

func (t *table) load() {
	uid := -1
	if st, err := os.Stat(t.path); err == nil {
		t.seen = stateOf(st)
		if sys, ok := st.Sys().(*syscall.Stat_t); ok {
			uid = int(sys.Uid)
		}
	}
	b, err := readSaved(t.path, maxSavedFile)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		t.damaged = nil
		return
	}
	if _, lerr := lstat(t.path); err != nil && errors.Is(lerr, fs.ErrPermission) {
		t.damaged, t.hidden = nil, lerr
		return
	}
	if err == nil {
		t.names, t.prefix, err = parsePickle(b, t.max)
	}
	if err != nil {
		t.damaged = &numberError{fmt.Sprintf("%s cannot be used, and is left as it is: %v", t.path, err)}
		return
	}
	t.known, t.bytes, t.damaged = len(t.names), savedBytes(t.names, 0), nil
	if me := os.Geteuid(); uid >= 0 && me != 0 && uid != me {
		// PCP 6.0.3's agent runs as root, and that of 7.2 as this user: it writes to the file.
		if err := savefile.Replace(t.path, b); err != nil {
			slog.Debug("{path} keeps its owner: {error}", "path", t.path, "error", err)
		}
	}
}

// recheck reads the file if that has not been done, or if the file was damaged and has been replaced.
// It does so without mu, which guards the table, as it may take long.
func (t *table) recheck(mu sync.Locker) {
	if t.damaged == nil {
		return
	}
	if st, err := os.Stat(t.path); err == nil && stateOf(st) == t.seen {
		return
	}
	read := &table{path: t.path, max: t.max}
	read.load()
	mu.Lock()
	*t = *read
	mu.Unlock()
}

// number returns the number of a name, which may be new if that is allowed.
func (t *table) number(name string, mayBeNew bool) (n int32, isNew bool, err error) {
	if t.damaged != nil {
		return 0, false, t.damaged
	}
	if t.index == nil {
		t.index = make(map[string]int32, len(t.names))
		for i, s := range t.names {
			t.index[s] = int32(i) // of several, the last counts, as in PCP's agent
		}
	}
	if n, ok := t.index[name]; ok {
		return n, false, nil
	}
	if !mayBeNew || len(t.names) >= t.max {
		return 0, false, errFull
	}
	size := savedBytes([]string{name}, len(t.names))
	if t.bytes+size > maxSavedFile-pickleFrame {
		return 0, false, errFull
	}
	n = int32(len(t.names))
	t.names = append(t.names, name)
	t.index[name] = n
	t.bytes += size
	return n, true, nil
}

// forget removes the names that are not known.
func (t *table) forget() {
	t.bytes -= savedBytes(t.names[t.known:], t.known)
	clear(t.names[t.known:])
	t.names, t.index = t.names[:t.known], nil
}

// save writes the names of tables to their files. From then on they are known, also if that failed. It
// does so without mu of their source, as it may take long: nothing else changes the names during a read.
// The files are written at the same time, since each waits for the disk.
func save(mu sync.Locker, tables []*table) (err error) {
	texts := make([][]byte, len(tables))
	for i, t := range tables {
		texts[i] = appendPickle(nil, t.names, t.prefix)
	}
	mu.Unlock()
	errs := make([]error, len(tables))
	var wait sync.WaitGroup
	slots := make(chan struct{}, maxWrites)
	for i, t := range tables {
		slots <- struct{}{}
		wait.Go(func() {
			errs[i] = t.write(texts[i])
			<-slots
		})
	}
	wait.Wait()
	mu.Lock()
	for i, t := range tables {
		t.known, t.index, t.unsaved = len(t.names), nil, errs[i] != nil
		err = cmp.Or(err, errs[i])
	}
	return err
}

// write writes the file, unless it may have numbers that are not known.
func (t *table) write(text []byte) error {
	if t.hidden != nil {
		if _, err := lstat(t.path); err == nil {
			return fmt.Errorf("%s was not known (%w), and is left as it is until the agent starts again", t.path, t.hidden)
		}
	}
	err := savefile.Replace(t.path, text)
	if err == nil {
		t.hidden = nil // it is ours now
	}
	return err
}

// instName returns the name that clients get for number n.
func (t *table) instName(n int) string {
	if t.prefix {
		return fmt.Sprintf("%d %s", n, t.names[n])
	}
	return t.names[n]
}
