package proc

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents/pmda"
)

// maxEnded is how many processes that have ended are kept.
const maxEnded = 5000

// What acct.control.state says.
const (
	acctInactive = iota
	acctSystem
	acctOwn
)

// An acct is the metrics below acct: processes that ended a short time ago, from
// the file that the kernel writes if accounting is switched on. If it is not, the
// agent does so itself once root has stored acct.control.enable_acct.
//
// The file of the host is read as the agent's user, and is for clients who may
// read it. Records of accounting that root has had switched on are for
// all clients that pmcd knows the user of.
//
// C differs: it opens the file as the first client that asks, and then has it
// for all; which accounting there is it finds out again only now and then; and it
// switches off that of others that came after its own.
type acct struct {
	*host
	source  *pmda.Source
	now     func() time.Time
	paths   []string // of the file of the host: the first that is there counts
	system  acctFile
	private *acctPrivate // nil if the agent has not switched accounting on
	path    string       // of the private file
	failed  time.Time    // when that was last tried in vain
	ended   []acctRecord // in the order of the file
	known   map[int32]bool
	visible bool // to the client of this request

	// acct.control
	retry, check, life, every uint32 // in seconds
	most                      uint64 // bytes of the private file
	enabled                   uint32
}

func newAcct(h *host) *acct {
	a := &acct{
		host: h, now: time.Now, known: make(map[int32]bool),
		retry: 60, check: 600, life: 60, every: 600, most: 10 << 20,
	}
	a.source = &pmda.Source{Read: a.refresh}
	a.paths = []string{"/var/log/account/pacct", "/var/account/pacct"}
	if path := os.Getenv("PCP_PACCT_SYSTEM_PATH"); path != "" {
		a.paths = slices.Insert(a.paths, 0, path)
	}
	dir := os.Getenv("PCP_VAR_DIR")
	if dir == "" {
		dir = "/var/lib/pcp"
	}
	a.path = filepath.Join(dir, "pmcd", "pacct")
	return a
}

// refresh finds out what there is for the client.
func (a *acct) refresh(_ context.Context, r *pmda.Request) error {
	if a.visible = a.allowed; !a.allowed {
		return nil
	}
	client := a.switched
	if client {
		a.revert()
	}
	a.update(a.now())
	if client {
		a.begin(r.Client())
	}
	a.visible = a.allowed && a.readable()
	return nil
}

// readable reports whether the client may read what update has read.
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
	return !a.foreign || syscall.Fstat(fd, &st) == nil && st.Mode&0o004 != 0
}

func (a *acct) openSystem() (fd int, err error) {
	for _, path := range a.paths {
		if fd, err = a.Path(path).FD(); err != syscall.ENOENT {
			return fd, err
		}
	}
	return fd, err
}

// update reads what was written since the last time, and forgets what is old.
func (a *acct) update(now time.Time) {
	check := seconds(a.check)
	fd, err := a.openSystem()
	if err == nil {
		defer syscall.Close(fd)
		err = a.system.look(fd, now, check)
	}
	if err != nil {
		a.system = acctFile{}
	}
	if a.system.active {
		a.stopPrivate()
		a.system.read(fd, maxEnded, a.add)
	} else {
		a.updatePrivate(now, check)
	}
	a.ended = slices.DeleteFunc(a.ended, func(r acctRecord) bool {
		old := now.Unix()-r.ended(a.hertz) > int64(a.life)
		if old {
			delete(a.known, r.pid)
		}
		return old
	})
}

func (a *acct) updatePrivate(now time.Time, check time.Duration) {
	if a.private != nil {
		fd := int(a.private.file.Fd())
		if a.private.look(fd, now, check) == nil && a.private.active {
			a.private.read(fd, maxEnded, a.add)
			return
		}
		a.stopPrivate()
	}
	if a.enabled == 0 || !a.failed.IsZero() && now.Sub(a.failed) <= seconds(a.retry) {
		return
	}
	p, err := startAcct(a.path)
	if err != nil {
		if a.failed.IsZero() {
			a.Log.Warn("proc: no process accounting: " + err.Error())
		}
		a.failed = now
		return
	}
	a.forget()
	p.limit(seconds(a.every), a.most)
	a.private, a.failed = p, time.Time{}
}

func (a *acct) stopPrivate() {
	if a.private != nil {
		a.private.stop()
		a.private = nil
		a.forget()
	}
}

func (a *acct) forget() {
	clear(a.known)
	a.ended = a.ended[:0]
}

// add remembers a process, unless one with its number was there a moment ago.
func (a *acct) add(r *acctRecord) {
	if r.pid <= 0 || a.known[r.pid] {
		return
	}
	if len(a.ended) == maxEnded {
		delete(a.known, a.ended[0].pid)
		a.ended = slices.Delete(a.ended, 0, 1)
	}
	a.known[r.pid] = true
	a.ended = append(a.ended, *r)
}

// Each implements pmda.Instances. Who ended last comes first.
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
		return acctSystem
	case a.private != nil:
		return acctOwn
	}
	return acctInactive
}

func seconds(n uint32) time.Duration { return time.Duration(n) * time.Second }

// close switches off what the agent has switched on.
func (a *acct) close() { a.stopPrivate() }
