package linuxproc

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
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
		if fd, err = a.Path(path).Open(); err != syscall.ENOENT {
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

// storeNumber stores one of acct.control. Then changed is called.
func storeNumber(n *uint32, changed func()) pmda.StoreFunc {
	return forRoot(func(v pmda.StoredValue) error {
		u, err := v.AsUint32()
		if err == nil {
			*n = u
			changed()
		}
		return err
	})
}

func (a *acct) limitPrivate() {
	if a.private != nil {
		a.private.limit(seconds(a.every), a.most)
	}
}

func (a *acct) storeMost(v pmda.StoredValue) error {
	n, err := v.AsUint64()
	if err == nil {
		a.most = n
		a.limitPrivate()
	}
	return err
}

func (a *acct) storeEvery(v pmda.StoredValue) error {
	n, err := v.AsUint32()
	switch {
	case err != nil:
		return err
	case n == 0:
		return pdu.ErrnoPermission
	}
	a.every = n
	a.limitPrivate()
	return nil
}

// enable switches accounting on, if that of the host is off, or off again.
func (a *acct) enable() {
	if a.failed = (time.Time{}); a.enabled == 0 {
		a.stopPrivate()
	}
	a.update(a.now())
}

func (a *acct) metrics() []pmda.Metric {
	indom := &pmda.InDom{Serial: indomAcct, Insts: a, Source: a.source}
	of := pmda.Of[acctRecord]
	num := func(i int) pmda.FetchFunc { return of(func(v *pmda.Value, r *acctRecord) { v.Uint(r.nums[i]) }) }
	ticks := func(i int) pmda.FetchFunc {
		return of(func(v *pmda.Value, r *acctRecord) { v.Float(float64(r.nums[i]) / float64(a.hertz)) })
	}
	flag := func(bit byte) pmda.FetchFunc {
		return of(func(v *pmda.Value, r *acctRecord) {
			if r.flags&bit != 0 {
				v.Uint(1)
			} else {
				v.Uint(0)
			}
		})
	}
	control := func(n *uint32) pmda.FetchFunc {
		return pmda.Number(func() (uint64, bool) { return uint64(*n), true })
	}
	ms := pmda.Table(pmda.Metric{}, []row{
		{70, 23, "acct.control.open_retry_interval", u32, discrete, sec, control(&a.retry)},
		{70, 24, "acct.control.check_acct_interval", u32, discrete, sec, control(&a.check)},
		{70, 26, "acct.control.lifetime", u32, discrete, sec, control(&a.life)},
		{70, 28, "acct.control.enable_acct", u32, discrete, none, control(&a.enabled)},
		{70, 25, "acct.control.file_size_threshold", u64, discrete, octet, pmda.Number(func() (uint64, bool) { return a.most, true })},
		{70, 27, "acct.control.refresh", u32, discrete, sec, control(&a.every)},
	})
	nothing := func() {}
	ms[0].Store, ms[1].Store, ms[2].Store = storeNumber(&a.retry, nothing), storeNumber(&a.check, nothing), storeNumber(&a.life, nothing)
	ms[3].Store, ms[4].Store, ms[5].Store = storeNumber(&a.enabled, a.enable), forRoot(a.storeMost), forRoot(a.storeEvery)
	return slices.Concat(
		ms,
		pmda.Table(pmda.Metric{Source: a.source}, []row{
			{70, 29, "acct.control.state", i32, discrete, none, pmda.Number(func() (uint64, bool) { return a.state(), true })},
		}),
		pmda.Table(pmda.Metric{InDom: indom}, []row{
			{70, 0, "acct.psinfo.tty", u32, discrete, none, of(func(v *pmda.Value, r *acctRecord) { v.Uint(uint64(r.tty)) })},
			{70, 1, "acct.psinfo.exitcode", u32, discrete, none, of(func(v *pmda.Value, r *acctRecord) { v.Uint(uint64(r.exitcode)) })},
			{70, 4, "acct.psinfo.pid", u32, discrete, none, of(func(v *pmda.Value, r *acctRecord) { v.Int(int64(r.pid)) })},
			{70, 5, "acct.psinfo.ppid", u32, discrete, none, of(func(v *pmda.Value, r *acctRecord) { v.Uint(uint64(r.ppid)) })},
			{70, 6, "acct.psinfo.btime", u32, discrete, sec, of(func(v *pmda.Value, r *acctRecord) { v.Uint(uint64(r.btime)) })},
			{70, 7, "acct.psinfo.etime", float, counter, sec, of(func(v *pmda.Value, r *acctRecord) { v.Float(float64(r.etime) / float64(a.hertz)) })},
			{70, 8, "acct.psinfo.utime", float, counter, sec, ticks(acctUtime)},
			{70, 9, "acct.psinfo.stime", float, counter, sec, ticks(acctStime)},
			{70, 10, "acct.psinfo.mem", u64, instant, kbyte, num(acctMem)},
			{70, 11, "acct.psinfo.io", u64, counter, count, num(acctIO)},
			{70, 12, "acct.psinfo.rw", u64, counter, count, num(acctRW)},
			{70, 13, "acct.psinfo.minflt", u64, counter, none, num(acctMinflt)},
			{70, 14, "acct.psinfo.majflt", u64, counter, count, num(acctMajflt)},
			{70, 15, "acct.psinfo.swaps", u64, counter, count, num(acctSwaps)},
			{70, 16, "acct.psinfo.ttyname", str, discrete, none, of(func(v *pmda.Value, r *acctRecord) {
				v.String(a.terminals.name(&a.tree, uint32(r.tty)))
			})},
			{70, 2, "acct.id.uid", u32, discrete, none, of(func(v *pmda.Value, r *acctRecord) { v.Uint(uint64(r.uid)) })},
			{70, 3, "acct.id.gid", u32, discrete, none, of(func(v *pmda.Value, r *acctRecord) { v.Uint(uint64(r.gid)) })},
			{70, 17, "acct.id.uid_nm", str, discrete, none, of(func(v *pmda.Value, r *acctRecord) { v.String(a.names.user(r.uid)) })},
			{70, 18, "acct.id.gid_nm", str, discrete, none, of(func(v *pmda.Value, r *acctRecord) { v.String(a.names.group(r.gid)) })},
			{70, 19, "acct.flag.fork", u32, instant, none, flag(acctFork)},
			{70, 20, "acct.flag.su", u32, instant, none, flag(acctSU)},
			{70, 21, "acct.flag.core", u32, discrete, none, flag(acctCore)},
			{70, 22, "acct.flag.xsig", u32, discrete, none, flag(acctXSig)},
		}),
	)
}
