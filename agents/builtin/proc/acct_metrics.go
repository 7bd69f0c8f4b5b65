package proc

import (
	"slices"
	"time"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// storeUint32 returns the StoreFunc of a setting in acct.control. It calls changed
// after a store.
func storeUint32(n *uint32, changed func()) pmda.StoreFunc {
	return forRoot(func(v pmda.StoredValue) error {
		u, err := v.AsUint32()
		if err == nil {
			*n = u
			changed()
		}
		return err
	})
}

func (a *acct) applyLimit() {
	if a.private != nil {
		a.private.limitSize(seconds(a.sizeInterval), a.maxSize)
	}
}

func (a *acct) storeMaxSize(v pmda.StoredValue) error {
	n, err := v.AsUint64()
	if err == nil {
		a.maxSize = n
		a.applyLimit()
	}
	return err
}

func (a *acct) storeSizeInterval(v pmda.StoredValue) error {
	n, err := v.AsUint32()
	switch {
	case err != nil:
		return err
	case n == 0:
		return pdu.ErrnoPermission
	}
	a.sizeInterval = n
	a.applyLimit()
	return nil
}

// applyEnabled switches private accounting on, unless the host has accounting on,
// or off, as acct.control.enable_acct says.
func (a *acct) applyEnabled() {
	if a.lastFailure = (time.Time{}); a.enabled == 0 {
		a.stopPrivate()
	}
	a.update(a.now())
}

// ttyDevice returns the device number of a terminal in a record. The kernel writes it in 16 bits,
// old_encode_dev of linux/kdev_t.h, so bits 8 to 10 of the minor number of a pty are in those of the
// major number, which is 136.
//
// C differs: it does not know the name of such a pty.
func ttyDevice(tty uint16) uint32 {
	dev := uint32(tty)
	if major := dev >> 8; major > 136 && major < 144 { // the kernel keeps them for ptys
		dev = 136<<8 | dev&0xff | (major-136)<<20
	}
	return dev
}

func (a *acct) metrics() []pmda.Metric {
	indom := &pmda.InDom{Serial: indomAcct, Insts: a, Source: a.source}
	of := pmda.FromData[acctRecord]
	num := func(i int) pmda.FetchFunc { return of(func(v *pmda.Value, r *acctRecord) { v.SetUint(r.counters[i]) }) }
	ticks := func(i int) pmda.FetchFunc {
		return of(func(v *pmda.Value, r *acctRecord) { v.SetFloat(float64(r.counters[i]) / float64(a.hertz)) })
	}
	flag := func(bit byte) pmda.FetchFunc {
		return of(func(v *pmda.Value, r *acctRecord) {
			if r.flags&bit != 0 {
				v.SetUint(1)
			} else {
				v.SetUint(0)
			}
		})
	}
	control := func(n *uint32) pmda.FetchFunc {
		return pmda.FromUint(func() (uint64, bool) { return uint64(*n), true })
	}
	ms := table(pmda.Metric{}, []row{
		{70, 23, "acct.control.open_retry_interval", u32, discrete, sec, control(&a.retryInterval)},
		{70, 24, "acct.control.check_acct_interval", u32, discrete, sec, control(&a.checkInterval)},
		{70, 26, "acct.control.lifetime", u32, discrete, sec, control(&a.lifetime)},
		{70, 28, "acct.control.enable_acct", u32, discrete, none, control(&a.enabled)},
		{70, 25, "acct.control.file_size_threshold", u64, discrete, octet, pmda.FromUint(func() (uint64, bool) { return a.maxSize, true })},
		{70, 27, "acct.control.refresh", u32, discrete, sec, control(&a.sizeInterval)},
	})
	unchanged := func() {}
	ms[0].Store, ms[1].Store, ms[2].Store = storeUint32(&a.retryInterval, unchanged), storeUint32(&a.checkInterval, unchanged), storeUint32(&a.lifetime, unchanged)
	ms[3].Store, ms[4].Store, ms[5].Store = storeUint32(&a.enabled, a.applyEnabled), forRoot(a.storeMaxSize), forRoot(a.storeSizeInterval)
	return slices.Concat(
		ms,
		table(pmda.Metric{Source: a.source}, []row{
			{70, 29, "acct.control.state", i32, discrete, none, pmda.FromUint(func() (uint64, bool) { return a.state(), true })},
		}),
		table(pmda.Metric{InDom: indom}, []row{
			{70, 0, "acct.psinfo.tty", u32, discrete, none, of(func(v *pmda.Value, r *acctRecord) { v.SetUint(uint64(r.tty)) })},
			{70, 1, "acct.psinfo.exitcode", u32, discrete, none, of(func(v *pmda.Value, r *acctRecord) { v.SetUint(uint64(r.exitcode)) })},
			{70, 4, "acct.psinfo.pid", u32, discrete, none, of(func(v *pmda.Value, r *acctRecord) { v.SetInt(int64(r.pid)) })},
			{70, 5, "acct.psinfo.ppid", u32, discrete, none, of(func(v *pmda.Value, r *acctRecord) { v.SetUint(uint64(r.ppid)) })},
			{70, 6, "acct.psinfo.btime", u32, discrete, sec, of(func(v *pmda.Value, r *acctRecord) { v.SetUint(uint64(r.btime)) })},
			{70, 7, "acct.psinfo.etime", float, counter, sec, of(func(v *pmda.Value, r *acctRecord) { v.SetFloat(float64(r.etime) / float64(a.hertz)) })},
			{70, 8, "acct.psinfo.utime", float, counter, sec, ticks(acctUtime)},
			{70, 9, "acct.psinfo.stime", float, counter, sec, ticks(acctStime)},
			{70, 10, "acct.psinfo.mem", u64, instant, kbyte, num(acctMem)},
			{70, 11, "acct.psinfo.io", u64, counter, count, num(acctIO)},
			{70, 12, "acct.psinfo.rw", u64, counter, count, num(acctRW)},
			{70, 13, "acct.psinfo.minflt", u64, counter, none, num(acctMinflt)},
			{70, 14, "acct.psinfo.majflt", u64, counter, count, num(acctMajflt)},
			{70, 15, "acct.psinfo.swaps", u64, counter, count, num(acctSwaps)},
			{70, 16, "acct.psinfo.ttyname", str, discrete, none, of(func(v *pmda.Value, r *acctRecord) {
				v.SetString(a.terminals.name(&a.tree, ttyDevice(r.tty)))
			})},
			{70, 2, "acct.id.uid", u32, discrete, none, of(func(v *pmda.Value, r *acctRecord) { v.SetUint(uint64(r.uid)) })},
			{70, 3, "acct.id.gid", u32, discrete, none, of(func(v *pmda.Value, r *acctRecord) { v.SetUint(uint64(r.gid)) })},
			{70, 17, "acct.id.uid_nm", str, discrete, none, of(func(v *pmda.Value, r *acctRecord) { v.SetString(a.names.user(r.uid)) })},
			{70, 18, "acct.id.gid_nm", str, discrete, none, of(func(v *pmda.Value, r *acctRecord) { v.SetString(a.names.group(r.gid)) })},
			{70, 19, "acct.flag.fork", u32, instant, none, flag(acctFork)},
			{70, 20, "acct.flag.su", u32, instant, none, flag(acctSU)},
			{70, 21, "acct.flag.core", u32, discrete, none, flag(acctCore)},
			{70, 22, "acct.flag.xsig", u32, discrete, none, flag(acctXSig)},
		}),
	)
}
