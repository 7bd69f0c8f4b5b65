package cache

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/safepath"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
)

// Path returns the name of the file.
func (c *Cache) Path() (string, error) {
	dir := c.opt.Dir
	if dir == "" {
		vars, err := pcpconf.Dir("PCP_VAR_DIR")
		if err != nil {
			return "", fmt.Errorf("%v (%w)", err, pdu.ErrnoGeneric)
		}
		dir = filepath.Join(vars, "config", "pmda")
	}
	return filepath.Join(dir, c.indom.String()), nil
}

// Load reads the file and adds its instances as inactive ones. It returns the number
// of valid lines. If an instance with the id and name of a line exists already, it
// gets the key and the time of the line. A line that contradicts an instance is
// ignored. The limit of ids and their reuse become those of the file.
//
// There are three kinds of errors:
//
//   - If the file does not exist, the error is fs.ErrNotExist. The file counts as
//     loaded.
//   - If the file has invalid lines, the error is a [*DamagedError]. All other lines
//     are loaded. The next Save keeps the old file, with ".damaged"
//     added to its name.
//   - After any other error the ids in the file are unknown. Until a Load succeeds,
//     Save returns an error and does not change the file, and new instances get
//     temporary ids. They count from the middle of the range, 1073741824, which ids in files do not reach in practice. The Load that succeeds
//     replaces temporary ids by those of the file, or by new ones.
//
// C PCP differs: after any error it assigns ids from 0 on and overwrites the file. It
// stops at an invalid line and follows symbolic links. If it ignores a line, the
// instance in conflict with it gets the key and time of the line. Ids and times may
// overflow, and incomplete lines are accepted.
func (c *Cache) Load() (int, error) {
	path, text, err := c.read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.loadErr = err
		return 0, err
	}
	c.loadErr, c.damaged, c.loadTried = nil, false, true
	temporary := c.takeTemporary()
	n, lerr := 0, err
	if err == nil {
		n, lerr = c.load(path, text)
	}
	c.addTemporary(temporary)
	return n, lerr
}

// loadRetry is how long TryLoad waits after a failed Load.
const loadRetry = time.Second

// TryLoad calls Load if that is necessary. It is for an agent that calls it each time
// before it updates its instances. It does nothing after a successful Load, and in
// the second after a failed one. loaded is true if this call has loaded the file or
// has found that there is none, so that ids may have changed. The error is that of
// Load, but a missing file is not an error.
func (c *Cache) TryLoad() (loaded bool, err error) {
	if !c.LoadDue() {
		return false, nil
	}
	c.loadTried, c.lastLoad = true, time.Now()
	_, err = c.Load()
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return c.loadErr == nil, err
}

// LoadDue reports whether TryLoad would call Load now.
func (c *Cache) LoadDue() bool {
	return !c.loadTried || c.loadErr != nil && time.Since(c.lastLoad) >= loadRetry
}

// read returns the path and the contents of the file.
func (c *Cache) read() (path string, text []byte, err error) {
	path, err = c.Path()
	if err != nil {
		return "", nil, err
	}
	d, file, err := safepath.OpenParent(path)
	if err != nil {
		return path, nil, err
	}
	defer d.Close()
	// O_NONBLOCK is for a FIFO, whose open would block. O_NOFOLLOW is because the
	// directory belongs to PCP's user, and root must not read a file that this
	// user has linked.
	f, err := c.open(file, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, syscall.ELOOP) {
		return path, nil, fmt.Errorf("%s: a symbolic link (%w)", path, pdu.ErrnoGeneric)
	}
	if err != nil {
		return path, nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return path, nil, err
	case !st.Mode().IsRegular():
		return path, nil, fmt.Errorf("%s: not a regular file (%w)", path, pdu.ErrnoGeneric)
	case st.Size() > maxFile:
		return path, nil, fmt.Errorf("%s: larger than 64 MiB (%w)", path, pdu.ErrnoTooBig)
	}
	// Read the whole file before adding instances: the disk may fail half-way.
	text, err = io.ReadAll(io.LimitReader(f, maxFile))
	return path, text, err
}

// A DamagedError is the error of Load for a file with invalid lines. It wraps
// PM_ERR_GENERIC.
type DamagedError struct {
	Path  string
	Line  int    // number of the first invalid line, starting at 1
	Text  string // up to 80 bytes of this line
	Lines int    // number of invalid lines
	err   error
}

func (e *DamagedError) Error() string {
	more := ""
	if e.Lines > 1 {
		more = fmt.Sprintf(" and %d more invalid lines", e.Lines-1)
	}
	return fmt.Sprintf("%s:%d: %v %q%s (%v)", e.Path, e.Line, e.err, e.Text, more, pdu.ErrnoGeneric)
}

func (e *DamagedError) Unwrap() []error { return []error{e.err, pdu.ErrnoGeneric} }

// load adds the instances in text, the contents of the file path. n is the number
// of valid lines.
func (c *Cache) load(path string, text []byte) (n int, err error) {
	if len(text) == 0 {
		c.warn("%s: the file is empty", path)
		return 0, nil
	}
	var damaged *DamagedError
	for num := 1; len(text) > 0; num++ {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		var err error
		if num == 1 {
			err = c.loadHeader(line)
		} else if err = c.loadRecord(path, num, line); err == nil {
			n++
		}
		if err == nil {
			continue
		}
		c.damaged = true
		if damaged == nil {
			damaged = &DamagedError{Path: path, Line: num, Text: string(line[:min(len(line), 80)]), err: err}
		}
		damaged.Lines++
		if num == 1 {
			break // the other lines may have another format
		}
	}
	if damaged != nil {
		return n, damaged
	}
	return n, nil
}

// loadHeader parses the first line.
func (c *Cache) loadHeader(line []byte) error {
	var num [3]int32 // version, mode, max
	num[2] = math.MaxInt32
	fields := bytes.Fields(line)
	for i, f := range fields[:min(len(num), len(fields))] {
		if i == 2 && num[0] == 1 {
			break // not a field of version 1
		}
		n, err := strconv.ParseInt(string(f), 10, 32)
		if err != nil || n < 0 {
			return errHeader
		}
		num[i] = int32(n)
	}
	if v := num[0]; len(line) > maxLine || v < 1 || v > 2 || len(fields) < int(v)+1 || num[1] > 1 {
		return errHeader
	}
	c.reuse, c.max = num[1] == 1, num[2]
	return nil
}

// loadRecord adds the instance in a line.
func (c *Cache) loadRecord(path string, num int, line []byte) error {
	r, ok := parseRecord(line)
	if !ok {
		return errRecord
	}
	e := c.byInst[r.Inst]
	named, matches := c.find(r.Name)
	switch {
	case e == nil && named == nil:
		e = c.insert(r.Name, r.Inst)
	case e == nil || e != named || !matches:
		if e == nil {
			e = named
		}
		c.warn("%s:%d: instance %d %q ignored: it conflicts with instance %d %q", path, num, r.Inst, r.Name, e.Inst, e.Name)
		return nil
	}
	e.key, e.stamp = r.key, r.stamp
	return nil
}

// warn calls Options.Warn.
func (c *Cache) warn(format string, args ...any) {
	if c.opt.Warn != nil {
		c.opt.Warn(fmt.Errorf(format, args...))
	}
}
