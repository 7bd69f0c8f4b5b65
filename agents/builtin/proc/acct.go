package proc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
)

// maxEnded is the largest number of ended processes that are kept.
const maxEnded = 5000

// Values of acct.control.state.
const (
	acctStateInactive = iota
	acctStateSystem
	acctStatePrivate
)

// An acct is the metrics below acct: processes that ended a short time ago, read
// from the file that the kernel writes while process accounting is on. If the
// host has accounting off, the agent switches it on with a private file once
// root has stored acct.control.enable_acct.
//
// The agent reads the host's file as its own user, and shows its records to
// clients that may read the file. Records of the private file are shown to all
// clients whose user pmcd knows.
//
// C differs: it opens the host's file as the first client that asks, and shows
// it to all clients from then on; it checks only from time to time which
// accounting is active; and it switches off accounting that another program has
// switched on after it.
type acct struct {
	*host
	source      *pmda.Source
	now         func() time.Time
	systemPaths []string // of the host's file: the first that exists is used
	system      acctFile
	private     *privateAcct // nil if the agent has not switched accounting on
	privatePath string
	lastFailure time.Time    // of switching on private accounting
	ended       []acctRecord // in the order of the file
	pids        map[int32]bool
	visible     bool // to the client of this request

	// acct.control
	retryInterval, checkInterval, lifetime, sizeInterval uint32 // in seconds
	maxSize                                              uint64 // bytes of the private file
	enabled                                              uint32
}

func newAcct(h *host) *acct {
	a := &acct{
		host: h, now: time.Now, pids: make(map[int32]bool),
		retryInterval: 60, checkInterval: 600, lifetime: 60, sizeInterval: 600, maxSize: 10 << 20,
	}
	a.source = &pmda.Source{Read: a.refresh}
	a.systemPaths = []string{"/var/log/account/pacct", "/var/account/pacct"}
	if path := os.Getenv("PCP_PACCT_SYSTEM_PATH"); path != "" {
		a.systemPaths = slices.Insert(a.systemPaths, 0, path)
	}
	dir, _ := pcpconf.Dir("PCP_VAR_DIR")
	a.privatePath = filepath.Join(dir, "pmcd", "pacct")
	return a
}

// refresh reads new records, and decides whether the client may see them.
func (a *acct) refresh(_ context.Context, r *pmda.Request) error {
	if a.visible = a.mayReadProcesses; !a.mayReadProcesses {
		return nil
	}
	wasImpersonating := a.impersonating
	if wasImpersonating {
		a.restoreOwn()
	}
	a.update(a.now())
	if wasImpersonating {
		a.impersonate(r.Client())
	}
	a.visible = a.mayReadProcesses && a.readable()
	return nil
}

// readable reports whether the client may read the file that update has read.
func (a *acct) readable() bool {
	if a.private != nil {
		return true
	}
	fd, err := a.openSystem()
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	return !a.otherUser || syscall.Fstat(fd, &st) == nil && st.Mode&0o004 != 0
}

func (a *acct) openSystem() (fd int, err error) {
	for _, path := range a.systemPaths {
		if fd, err = a.Path(path).FD(); !errors.Is(err, syscall.ENOENT) {
			return fd, err
		}
	}
	return fd, err
}

// update reads the records written since the last call, and drops those that are
// older than the lifetime.
func (a *acct) update(now time.Time) {
	check := seconds(a.checkInterval)
	add := func(r *acctRecord) { a.add(r, now) }
	fd, err := a.openSystem()
	if err == nil {
		defer syscall.Close(fd)
		err = a.system.check(fd, now, check)
	}
	if err != nil {
		a.system = acctFile{}
	}
	if a.system.active {
		a.stopPrivate()
		a.system.read(fd, maxEnded, add)
	} else {
		a.updatePrivate(now, check, add)
	}
	a.ended = slices.DeleteFunc(a.ended, func(r acctRecord) bool {
		old := now.Sub(r.end) > seconds(a.lifetime)
		if old {
			delete(a.pids, r.pid)
		}
		return old
	})
}

func (a *acct) updatePrivate(now time.Time, check time.Duration, add func(r *acctRecord)) {
	if a.private != nil {
		fd := int(a.private.file.Fd())
		if a.private.check(fd, now, check) == nil && a.private.active {
			a.private.read(fd, maxEnded, add)
			return
		}
		a.stopPrivate()
	}
	if a.enabled == 0 || !a.lastFailure.IsZero() && now.Sub(a.lastFailure) <= seconds(a.retryInterval) {
		return
	}
	p, err := startPrivateAcct(a.privatePath)
	if err != nil {
		if a.lastFailure.IsZero() {
			a.Log.Warn("{agent}: cannot switch on process accounting (trying again every {delay}): {error}", "delay", seconds(a.retryInterval), "error", err)
		}
		a.lastFailure = now
		return
	}
	a.clearEnded()
	p.limitSize(seconds(a.sizeInterval), a.maxSize)
	a.private, a.lastFailure = p, time.Time{}
}

func (a *acct) stopPrivate() {
	if a.private != nil {
		a.private.stop()
		a.private = nil
		a.clearEnded()
	}
}

func (a *acct) clearEnded() {
	clear(a.pids)
	a.ended = a.ended[:0]
}

// add keeps a record, unless there is one with the same process id already. It is kept for
// its lifetime also if the clock is set meanwhile.
func (a *acct) add(r *acctRecord, now time.Time) {
	if r.pid <= 0 || a.pids[r.pid] {
		return
	}
	if len(a.ended) == maxEnded {
		delete(a.pids, a.ended[0].pid)
		a.ended = a.ended[1:] // without moving the others: append does, once for many records
	}
	a.pids[r.pid] = true
	r.end = now.Add(-time.Duration(max(0, now.Unix()-r.ended(a.hertz))) * time.Second)
	a.ended = append(a.ended, *r)
}

// Each implements pmda.Instances. The process that ended last comes first.
func (a *acct) Each(yield func(inst int32, name string, data any) bool) {
	if !a.visible {
		return
	}
	for i := range a.ended {
		r := &a.ended[len(a.ended)-1-i]
		if !yield(r.pid, r.comm, r) {
			return
		}
	}
}

func (a *acct) state() uint64 {
	switch {
	case a.system.active:
		return acctStateSystem
	case a.private != nil:
		return acctStatePrivate
	}
	return acctStateInactive
}

func seconds(n uint32) time.Duration { return time.Duration(n) * time.Second }

// close switches off private accounting.
func (a *acct) close() { a.stopPrivate() }
