package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gopcp/pmcd/internal/safepath"
	"github.com/gopcp/pmcd/internal/savefile"
	"github.com/gopcp/pmcd/pdu"
)

// Save writes the file if instances were added or removed since the last write. It
// returns the number of instances in the file, or 0 if it did not write
// (PMDA_CACHE_SAVE).
//
// Save writes a new file, syncs it to disk and renames it. It omits instances whose
// name Load could not read back: names with a newline or NUL, names that start with a
// blank or with text that looks like a key, and names of about 1000 bytes or more.
// The error is PM_ERR_TOOBIG for a file of more than 64 MiB, [ErrNotLoaded] after a
// failed Load, or an error of the file system.
//
// C PCP differs: it writes all names, and overwrites the old file.
func (c *Cache) Save() (int, error) {
	if !c.dirty {
		return 0, nil
	}
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
	if err := savefile.Replace(path, text); err != nil {
		return 0, err
	}
	c.damaged = false
	for _, e := range c.list {
		if e.stamp == 0 {
			e.stamp = now
		}
	}
	c.dirty = false
	return n, nil
}

// TrySave calls Save at most maxSaves times in saveInterval, and not for that time after a failure.
const (
	saveInterval = time.Minute
	maxSaves     = 10
)

// TrySave calls Save, except after failures and after 10 calls in a minute: users may
// cause new instances all the time, for example by mounts. It is for an agent that calls it
// each time after it has updated its instances. It does nothing while the file could not
// be read, and in the minute after a failed Save.
func (c *Cache) TrySave() error {
	if !c.SaveDue() {
		return nil
	}
	now := time.Now()
	if now.Sub(c.savesSince) >= saveInterval {
		c.savesSince, c.saves = now, 0
	}
	c.saves++
	_, err := c.Save()
	if err != nil {
		c.savesSince, c.saves = now, maxSaves
	}
	return err
}

// SaveDue reports whether TrySave would call Save now, and Save would write.
func (c *Cache) SaveDue() bool {
	return c.dirty && c.loadErr == nil && (c.saves < maxSaves || time.Since(c.savesSince) >= saveInterval)
}

// ErrNotLoaded is the error of Save after a failed Load. To write
// would destroy the ids in the file.
var ErrNotLoaded = errors.New("not written because it could not be read")

// text returns the contents of the file and the number of instances in it. Instances
// without a stamp have the stamp now.
func (c *Cache) text(path string, now int64) (text []byte, n int) {
	mode := 0
	if c.reuse {
		mode = 1
	}
	text = fmt.Appendf(nil, "2 %d %d\n", mode, c.max)
	c.sort()
	for _, e := range c.list {
		r := entry{Entry: Entry{Inst: e.Inst, Name: e.Name}, key: e.key, stamp: e.stamp}
		if r.stamp == 0 {
			r.stamp = now
		}
		start := len(text)
		text = appendRecord(text, &r)
		if back, ok := parseRecord(text[start:]); !ok || back != r {
			text = text[:start]
			c.warn("%s: instance %d %.80q not written: the file format does not allow its name", path, e.Inst, e.Name)
			continue
		}
		text = append(text, '\n')
		n++
	}
	return text, n
}

// keepDamaged links a damaged file, which is about to be replaced, to a name that
// ends in ".damaged". An earlier file of that name is removed. The damaged file keeps
// its own name, too, so that the next Load finds it if the replacement fails.
func (c *Cache) keepDamaged(path string) error {
	d, file, err := safepath.OpenParent(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer d.Close()
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.Remove(file + ".damaged"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d.Err(err)
	}
	if err := c.link(file, file+".damaged"); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, text, err := c.read() // the file system has no hard links, or is full
	if err != nil {
		return err
	}
	return savefile.Replace(path+".damaged", text)
}
