package cache

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// Save writes the file if instances were added or culled since it was last
// written, and returns how many are in it; 0 if it is as it should be
// (PMDA_CACHE_SAVE).
//
// The new file takes the place of the old one when it is whole. Save waits for
// the disk. A name that Load could not read back is left out: one with a newline
// or NUL, one that starts with a blank or with what looks like a key, one of
// about 1000 bytes. The error is PM_ERR_TOOBIG for a file over 64 MiB,
// [ErrNotLoaded] after a Load that has failed, else that of the file system.
//
// C differs: it writes all names, over the old file.
func (c *Cache) Save() (int, error) {
	if !c.dirtyInst {
		return 0, nil
	}
	return c.Write()
}

// saveRetry is how long TrySave waits after a Save that has failed.
const saveRetry = time.Minute

// TrySave is Save for an agent that calls it after each look at its instances:
// it does nothing as long as the file could not be read, or within a minute of
// a Save that has failed.
func (c *Cache) TrySave() error {
	if !c.SaveDue() {
		return nil
	}
	c.lastSave = time.Now()
	_, err := c.Save()
	c.saveFailed = err != nil
	return err
}

// SaveDue reports whether TrySave would write now.
func (c *Cache) SaveDue() bool {
	return c.dirtyInst && c.loadErr == nil && !(c.saveFailed && time.Since(c.lastSave) < saveRetry)
}

// ErrNotLoaded is the error of Save, Sync and Write after a Load that has failed:
// they would destroy the ids that the file has.
var ErrNotLoaded = errors.New("not written, as it could not be read")

// Sync is like Save, and also writes if instances were added again since the
// file was last written, so that the times for Purge are more exact, or if Resize
// was called (PMDA_CACHE_SYNC).
func (c *Cache) Sync() (int, error) {
	if !c.dirtyInst && !c.dirtyStamp {
		return 0, nil
	}
	return c.Write()
}

// Write is like Save, and writes in any case (PMDA_CACHE_WRITE).
func (c *Cache) Write() (int, error) {
	path, err := c.Path()
	if err != nil {
		return 0, err
	}
	if c.loadErr != nil {
		return 0, fmt.Errorf("%s: %w: %w", path, ErrNotLoaded, c.loadErr)
	}
	now := time.Now().Unix()
	text, n := c.text(path, now)
	if len(text) > maxFile {
		return 0, fmt.Errorf("%s: %w", path, pdu.ErrnoTooBig)
	}
	if c.damaged {
		if err := c.keepDamaged(path); err != nil {
			return 0, err
		}
	}
	if err := replace(path, text); err != nil {
		return 0, err
	}
	c.damaged = false
	for _, e := range c.list {
		if e.stamp == 0 {
			e.stamp = now
		}
	}
	c.dirtyInst, c.dirtyStamp = false, false
	return n, nil
}

// text returns the file and how many instances are in it. Those that were active
// since it was last written get the stamp now.
func (c *Cache) text(path string, now int64) (text []byte, n int) {
	mode := 0
	if c.reuse {
		mode = 1
	}
	text = fmt.Appendf(nil, "2 %d %d\n", mode, c.max)
	c.sort()
	for _, e := range c.list {
		if e.State == culled {
			continue
		}
		r := entry{Entry: Entry{Inst: e.Inst, Name: e.Name, Key: e.Key}, stamp: e.stamp}
		if r.stamp == 0 {
			r.stamp = now
		}
		start := len(text)
		text = appendRecord(text, &r)
		if back, ok := parseRecord(text[start:]); !ok || back != r {
			text = text[:start]
			c.warn("%s: left out %d %.80q", path, e.Inst, e.Name)
			continue
		}
		text = append(text, '\n')
		n++
	}
	return text, n
}

// appendRecord appends the line of an entry, without its end.
func appendRecord(b []byte, e *entry) []byte {
	b = strconv.AppendInt(b, int64(e.Inst), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, e.stamp, 10)
	if e.Key != "" {
		b = append(b, " ["...)
		b = hex.AppendEncode(b, []byte(e.Key))
		b = append(b, ']')
	}
	b = append(b, ' ')
	return append(b, e.Name...)
}

// keepDamaged gives a damaged file, which is about to be replaced, a second
// name, in place of what had that name. The file stays where it is: if it cannot
// be replaced after that, the next Load still finds it.
func (c *Cache) keepDamaged(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	aside := path + ".damaged"
	if err := os.Remove(aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := c.link(path, aside); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, text, err := c.read() // the file system has no links, or no room for one
	if err != nil {
		return err
	}
	return replace(aside, text)
}

// replace puts a file in the place of another, with its owner and mode: an
// agent that runs as root must not take the file from one that does not.
func replace(path string, text []byte) (err error) {
	dir, name := filepath.Dir(path), filepath.Base(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+name+".*")
	if err != nil {
		return withPath(err, path)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = withPath(err, path)
		}
	}()
	mode := os.FileMode(0o644)
	if old, err := os.Lstat(path); err == nil && old.Mode().IsRegular() {
		mode = old.Mode().Perm()
		if st, ok := old.Sys().(*syscall.Stat_t); ok {
			f.Chown(int(st.Uid), int(st.Gid)) // only root can; others keep it
		}
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	// Else the name may reach the disk before the text.
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// withPath returns an error of the file system that names path in place of a
// temporary file: an error that lasts has the same text each time, and callers
// log it once.
func withPath(err error, path string) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: p.Op, Path: path, Err: p.Err}
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return &fs.PathError{Op: l.Op, Path: path, Err: l.Err}
	}
	return err
}
