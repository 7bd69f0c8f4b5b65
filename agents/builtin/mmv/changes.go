package mmv

import (
	"context"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/mmvformat"
)

// Before each request, the agent looks whether
//
//   - the directory has changed: a file was made, renamed or removed;
//   - mmv.control.reload was stored into;
//   - a file was written again in its place: its header, size or inode has changed;
//   - the process of a file with FlagProcess has ended;
//   - a file that was not complete is complete now.
//
// The first two are one system call. For the others, files must be opened, so a request
// does so for the files that it needs, and for at most pollFiles others and pollFiles
// files that were not complete. All files are looked at for requests that may need any of
// them: for names below a name, for an unknown name or PMID, for control metrics.
//
// C differs: it looks at all files before each request, which are mapped. It reads all
// files again if one has changed, and for each request while one is not complete.
const pollFiles = 4

// maxRetries is how often a request begins again because a file has changed.
const maxRetries = 3

// An entry is what is known of a name in the directory.
type entry struct {
	path string
	file *file // nil if the file was not accepted
	// Of a file that is not complete.
	flux bool
	raw  [mmvformat.HeaderSize]byte
}

// A dirState is what a change of the directory changes.
type dirState struct {
	err   error // a syscall.Errno
	id    fileID
	mtime syscall.Timespec
	// recent says that the directory had changed just before it was read. The time of
	// the next change can be the same: the kernel's clock for it ticks each 1 to 10 ms, and
	// some file systems, such as ext3, have whole seconds.
	recent bool
}

const tick = 20 * time.Millisecond

func stateOf(dir string) dirState {
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		return dirState{err: err}
	}
	return dirState{id: fileID{uint64(st.Dev), st.Ino}, mtime: st.Mtim, recent: isRecent(st.Mtim, time.Now())}
}

func isRecent(mtime syscall.Timespec, now time.Time) bool {
	age, limit := now.Sub(time.Unix(mtime.Unix())), tick
	if mtime.Nsec == 0 {
		limit += time.Second
	}
	return age >= 0 && age < limit
}

// refresh looks for changes, in all files if the request may need any of them.
func (a *agent) refresh(ctx context.Context, all bool) error {
	if !a.started {
		err := a.rescan(ctx)
		a.started = err == nil
		a.changed = false // no client knows any names yet
		a.budget = newBudget(a.now())
		return err
	}
	s := stateOf(a.dir)
	if a.forced || a.seen.recent || s.err != a.seen.err || s.id != a.seen.id || s.mtime != a.seen.mtime {
		_, err := a.reread(ctx)
		return err
	}
	if all {
		_, err := a.pollAll(ctx)
		return err
	}
	if a.pollSome(a.poll[:a.inFlux], &a.next[0]) || a.pollSome(a.poll[a.inFlux:], &a.next[1]) {
		_, err := a.reread(ctx)
		return err
	}
	return nil
}

// pollSome looks at some of list, other ones each time, and reports whether one has
// changed.
func (a *agent) pollSome(list []*entry, next *int) bool {
	for range min(pollFiles, len(list)) {
		*next = (*next + 1) % len(list)
		if a.differs(list[*next]) {
			return true
		}
	}
	return false
}

// pollAll looks at all files, and reports whether they were read again.
func (a *agent) pollAll(ctx context.Context) (changed bool, err error) {
	start := a.now()
	if !a.budget.allows(start) {
		return false, nil
	}
	for i, e := range a.poll {
		if err := a.ended(ctx, i+1); err != nil {
			return false, err
		}
		if changed = a.differs(e); changed {
			break
		}
	}
	a.budget.spend(a.now().Sub(start))
	if !changed {
		return false, nil
	}
	return a.reread(ctx)
}

// recheck looks at one file, and reports whether the files were read again.
func (a *agent) recheck(ctx context.Context, f *file) (changed bool, err error) {
	if !a.gone(f) {
		return false, nil
	}
	return a.reread(ctx)
}

// differs reports whether the files must be read again because of e.
func (a *agent) differs(e *entry) bool {
	if e.file != nil {
		return a.gone(e.file)
	}
	if err := a.in.open(e.path); err != nil {
		return !transient(err)
	}
	defer a.in.close()
	raw, err := a.in.header()
	return err != nil || raw != e.raw
}

// gone reports whether f is no longer what it was when it was loaded.
func (a *agent) gone(f *file) bool {
	if err := a.in.open(f.path); err != nil {
		return !transient(err)
	}
	defer a.in.close()
	return a.changedFile(f)
}

// changedFile is gone for a file that is open.
func (a *agent) changedFile(f *file) bool {
	if a.in.id != f.id || a.in.size != f.size || !alive(&f.header) {
		return true
	}
	raw, err := a.in.header()
	return err != nil || raw != f.raw
}

// alive reports whether the process of a file with FlagProcess exists.
func alive(h *mmvformat.Header) bool {
	if h.Flags&mmvformat.FlagProcess == 0 || h.Process == 0 {
		return true
	}
	return h.Process > 0 && syscall.Kill(int(h.Process), 0) != syscall.ESRCH
}

// reread is rescan within the budget. It reports whether it was.
func (a *agent) reread(ctx context.Context) (done bool, err error) {
	start := a.now()
	if !a.budget.allows(start) {
		a.log.overBudget(a.dir)
		return false, nil
	}
	err = a.rescan(ctx)
	a.budget.spend(a.now().Sub(start))
	return err == nil, err
}
