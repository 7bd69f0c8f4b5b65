package linux

import (
	"bytes"
	"context"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// locks reads /proc/locks, proc(5). A line of a process that waits for a lock has
// another word in place of the kind, and does not count.
//
//	1: POSIX  ADVISORY  READ  5433 08:01:7864448 128 128
//	1: -> POSIX  ADVISORY  WRITE 1234 08:01:7864448 128 128
type locks struct {
	file   *sysfile.File
	exists bool
	kinds  [lockKinds]struct{ read, write, all uint64 }
}

const (
	lockPOSIX = iota
	lockFlock
	lockLease
	lockKinds
)

var lockNames = []struct {
	name string
	kind int
}{
	{"POSIX", lockPOSIX},
	{"ACCESS", lockPOSIX},
	{"OFDLCK", lockPOSIX},
	{"FLOCK", lockFlock},
	{"DELEG", lockLease},
	{"LEASE", lockLease},
}

func newLocks(h *host) *locks { return &locks{file: h.file("proc/locks")} }

func (l *locks) read(context.Context, *pmda.Request) error {
	b, err := l.file.Read()
	l.parse(b)
	// The file is empty if there are no locks.
	l.exists = b != nil
	return err
}

func (l *locks) parse(b []byte) {
	clear(l.kinds[:])
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		num, line := sysfile.Field(line)
		kind, line := sysfile.Field(line)
		_, line = sysfile.Field(line) // ADVISORY, MANDATORY ...
		mode, _ := sysfile.Field(line)
		if !bytes.HasSuffix(num, []byte{':'}) {
			continue
		}
		for _, n := range lockNames {
			if string(kind) != n.name {
				continue
			}
			k := &l.kinds[n.kind]
			k.all++
			switch string(mode) {
			case "READ":
				k.read++
			case "WRITE":
				k.write++
			case "RW":
				k.read++
				k.write++
			}
		}
	}
}

func (l *locks) metrics() []pmda.Metric {
	value := func(n *uint64) pmda.FetchFunc { return pmda.FromUint(func() (uint64, bool) { return *n, l.exists }) }
	posix, flock, lease := &l.kinds[lockPOSIX], &l.kinds[lockFlock], &l.kinds[lockLease]
	return table(pmda.Metric{Source: &pmda.Source{Read: l.read}}, []row{
		{75, 0, "vfs.locks.posix.read", u32, instant, none, value(&posix.read)},
		{75, 1, "vfs.locks.posix.write", u32, instant, none, value(&posix.write)},
		{75, 2, "vfs.locks.posix.count", u32, instant, none, value(&posix.all)},
		{75, 3, "vfs.locks.flock.read", u32, instant, none, value(&flock.read)},
		{75, 4, "vfs.locks.flock.write", u32, instant, none, value(&flock.write)},
		{75, 5, "vfs.locks.flock.count", u32, instant, none, value(&flock.all)},
		{75, 6, "vfs.locks.lease.read", u32, instant, none, value(&lease.read)},
		{75, 7, "vfs.locks.lease.write", u32, instant, none, value(&lease.write)},
		{75, 8, "vfs.locks.lease.count", u32, instant, none, value(&lease.all)},
	})
}
