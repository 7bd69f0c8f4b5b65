package cache

import (
	"bytes"
	"encoding/hex"
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

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// The file is text (pmdaCache(3), "FILES"; no page has its format):
//
//	2 MODE MAX                 version 1 has no MAX; MODE is 1 if ids are used again
//	INST STAMP [KEY] NAME      one line an instance; KEY is hexadecimal,
//	INST STAMP NAME            NAME goes on to the end of the line

const (
	maxLine = 1022     // bytes of a line without its end: what C reads
	maxFile = 64 << 20 // bytes; C has no limit
)

var errHeader, errRecord = errors.New("illegal header"), errors.New("illegal record")

// Path returns the name of the file.
func (c *Cache) Path() (string, error) {
	dir := c.opt.Dir
	if dir == "" {
		vars, err := varDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(vars, "config", "pmda")
	}
	return filepath.Join(dir, c.indom.String()), nil
}

// varDir returns PCP_VAR_DIR, which pmcd has in the environment of agents. On a
// host without PCP it is what it is with PCP everywhere: ids last there, too.
func varDir() (string, error) {
	const name = "PCP_VAR_DIR"
	if dir := os.Getenv(name); dir != "" {
		return dir, nil
	}
	conf, err := pmcdconf.LoadPCPConf(os.LookupEnv)
	for _, v := range conf {
		if v.Name == name && v.Value != "" {
			return v.Value, nil
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "/var/lib/pcp", nil
	case err == nil:
		err = errors.New("not in pcp.conf")
	}
	return "", fmt.Errorf("%s is not set: %v (%w)", name, err, pdu.ErrnoGeneric)
}

// Load adds what is in the file, as inactive instances, and returns how many
// lines it had for them. An instance that is there already, with the id and
// name of the file, takes its key and stamp; a line that contradicts one is
// ignored. What Resize and Reuse have set is as in the file afterwards.
//
// Three kinds of error are apart:
//
//   - A missing file is an fs.ErrNotExist. It counts as loaded.
//   - A damaged file is a [*DamagedError]. All other lines are loaded, and the
//     next Save, Sync or Write keeps the old file under the name with ".damaged"
//     at its end.
//   - After any other error the file may have ids that this Cache does not know.
//     Until a Load succeeds, Save, Sync and Write return an error and leave the
//     file as it is, and new instances get temporary ids: those of Add count
//     from the middle of the range, 1073741824, which the ids of files do not
//     reach. The Load that succeeds gives these instances the ids of the file,
//     or new ones that follow them.
//
// C differs: after an error of any kind it gives ids from 0 on and writes them
// over the file; it stops at a line that is damaged; it follows links, gives the
// key and stamp of a line that it ignores to the instance that is in the way,
// ids and stamps may overflow, and lines need not be complete.
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

// loadRetry is how long TryLoad waits after a Load that has failed.
const loadRetry = time.Second

// TryLoad is Load for an agent that calls it before each look at its instances:
// it does nothing once a Load has succeeded, or within a second of one that has
// failed. loaded says that this call has loaded the file, or found that there is
// none: ids may have changed. The error is that of Load, but for a missing file.
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

// LoadDue reports whether TryLoad would read the file now.
func (c *Cache) LoadDue() bool {
	return !c.loadTried || c.loadErr != nil && time.Since(c.lastLoad) >= loadRetry
}

// read returns the file.
func (c *Cache) read() (path string, text []byte, err error) {
	path, err = c.Path()
	if err != nil {
		return "", nil, err
	}
	// Without O_NONBLOCK a FIFO would be waited for. The directory is PCP's
	// user's: root does not read what a link of his leads to.
	f, err := c.open(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
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
	// All of it before anything is taken from it: a disk may fail half-way.
	text, err = io.ReadAll(io.LimitReader(f, maxFile))
	return path, text, err
}

// DamagedError is the error of Load for a file that has lines which are none of a
// cache. It wraps PM_ERR_GENERIC.
type DamagedError struct {
	Path  string
	Line  int    // the first line that is damaged, from 1
	Text  string // of that line, or its start
	Lines int    // how many are damaged
	err   error
}

func (e *DamagedError) Error() string {
	more := ""
	if e.Lines > 1 {
		more = fmt.Sprintf(" and %d more lines", e.Lines-1)
	}
	return fmt.Sprintf("%s:%d: %v %q%s (%v)", e.Path, e.Line, e.err, e.Text, more, pdu.ErrnoGeneric)
}

func (e *DamagedError) Unwrap() []error { return []error{e.err, pdu.ErrnoGeneric} }

func (c *Cache) load(path string, text []byte) (n int, err error) {
	if len(text) == 0 {
		c.warn("%s: empty", path)
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
			break // what follows may have another format
		}
	}
	if damaged != nil {
		return n, damaged
	}
	return n, nil
}

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
		c.warn("%s:%d: ignored %d %q: there is %d %q", path, num, r.Inst, r.Name, e.Inst, e.Name)
		return nil
	}
	e.Key, e.stamp = r.Key, r.stamp
	return nil
}

func (c *Cache) warn(format string, args ...any) {
	if c.opt.Warn != nil {
		c.opt.Warn(fmt.Errorf(format, args...))
	}
}

// parseRecord reads a line. Brackets around anything but a key belong to the
// name: "[::1]:80" is one.
func parseRecord(line []byte) (e entry, ok bool) {
	if len(line) > maxLine || bytes.ContainsAny(line, "\n\x00") {
		return e, false
	}
	inst, line, ok := parseNumber(line, math.MaxInt32)
	if !ok {
		return e, false
	}
	stamp, line, ok := parseNumber(line, math.MaxInt64)
	if !ok || len(line) == 0 {
		return e, false
	}
	e.Inst, e.stamp = int32(inst), stamp
	if line[0] == '[' {
		text, rest, _ := bytes.Cut(line[1:], []byte("]"))
		key := make([]byte, hex.DecodedLen(len(text)))
		if name := trimSpace(rest); len(key) > 0 && len(name) > 0 && len(name) < len(rest) {
			if _, err := hex.Decode(key, text); err == nil {
				e.Key, line = string(key), name
			}
		}
	}
	e.Name = string(line)
	return e, true
}

// parseNumber reads digits, and the blanks before and after them.
func parseNumber(line []byte, limit int64) (n int64, rest []byte, ok bool) {
	rest = trimSpace(line)
	for ; len(rest) > 0 && '0' <= rest[0] && rest[0] <= '9'; rest = rest[1:] {
		d := int64(rest[0] - '0')
		if n > (limit-d)/10 {
			return 0, nil, false
		}
		n, ok = 10*n+d, true
	}
	name := trimSpace(rest)
	return n, name, ok && len(name) < len(rest)
}

// trimSpace takes off what isspace(3) is true for, at the start.
func trimSpace(b []byte) []byte { return bytes.TrimLeft(b, " \t\n\v\f\r") }
