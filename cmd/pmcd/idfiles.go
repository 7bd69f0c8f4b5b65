package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
)

// idFiles watches whether agents can write the files that have the ids of instances. Without them,
// agents serve all the same, and ids may be others when an agent starts again. An agent that is a
// program, such as openmetrics, can only log that.
type idFiles struct {
	dir    string
	log    *slog.Logger
	access func(path string, mode uint32) error // access(2)

	// mu guards the following: check has a goroutine of its own, as it may wait for the file system.
	mu       sync.Mutex
	checked  time.Time // when check was called
	checking bool
	err      error
	changed  func()
}

// idCheckInterval is how often at most the directory is looked at.
const idCheckInterval = time.Minute

// newIDFiles returns an idFiles for the directory of PCP. The first call of Problems, when agents have
// started, has it look: before, pmcd may have root's rights.
func newIDFiles(log *slog.Logger) *idFiles {
	vars, err := pcpconf.Dir("PCP_VAR_DIR")
	if err != nil {
		return nil
	}
	return &idFiles{dir: filepath.Join(vars, "config", "pmda"), log: log, access: unix.Access, changed: func() {}}
}

func (f *idFiles) check() {
	err := f.access(f.dir, unix.W_OK|unix.X_OK)
	if errors.Is(err, fs.ErrNotExist) { // an agent makes it
		err = nil
	}
	f.mu.Lock()
	before := f.err
	f.err, f.checking = err, false
	changed := f.changed
	f.mu.Unlock()
	if (err == nil) == (before == nil) {
		return
	}
	if err != nil {
		f.log.Warn("{path} cannot be written: {error}; ids of instances are not saved, and may be others when an agent starts again", "path", f.dir, "error", err)
	}
	changed()
}

// OnChange has f called when there is a problem, or none any more.
func (f *idFiles) OnChange(changed func()) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed = changed
}

// Problems returns a line if the files cannot be written. It waits for no file system: if a minute has
// passed, the next call has what is found now.
func (f *idFiles) Problems() []string {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.checking && time.Since(f.checked) >= idCheckInterval {
		f.checking, f.checked = true, time.Now()
		go f.check()
	}
	if f.err == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s cannot be written: %v; ids of instances are not saved, and may be others when an agent starts again", f.dir, f.err)}
}
