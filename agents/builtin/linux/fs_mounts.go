package linux

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/gopcp/pmcd/agents/builtin/internal/metrics"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/internal/rawio"
	"github.com/gopcp/pmcd/pdu"
)

// filesystems reads /proc/self/mounts, for the file systems on devices, and tmpfs:
//
//	/dev/vda1 / ext4 rw,relatime 0 0
//
// It reads the mounts of process 1 if a service manager has given this process a
// mount name space of its own (ProtectSystem= and others of systemd.exec(5)):
// there, some file systems are read-only that are writable on the host, for
// instance. With another Options.Root it reads the mounts of process 1 in that
// tree, and looks for the file systems in the tree. If the mounts are not those of
// this process, only the file systems that reachedMounts finds have values.
//
// C differs: with LINUX_STATSPATH it reads /proc/self/mounts of that tree, but
// looks for the file systems on this host.
type filesystems struct {
	h       *host
	file    *sysfile.File
	text    []byte         // of the last refresh
	reached *reachedMounts // nil if file is that of this process
	devices *instances[filesystem]
	tmpfs   *instances[filesystem]
	source  *pmda.Source
	always  *pmda.Source // reads the file also if no file system was mounted since
	uuids   uuids
}

type filesystem struct {
	device     string // as in the file
	typ        string // ext4
	mount      string // mount point as in the file
	path       string // mount point, for statfs(2)
	readonly   bool
	stat       syscall.Statfs_t
	valid      bool  // stat has values
	err        error // if it has none, for the client
	statfsDone bool  // statfs(2) was called in this fetch
	inMemory   bool  // statfs(2) does not wait
	f          *filesystems
}

func newFilesystems(h *host) *filesystems {
	process := "proc/self"
	switch {
	case h.container != nil:
		process = h.container.proc
	case h.Root != "/" || hasCopiedMounts(readMountinfo("self"), readMountinfo("1")):
		process = "proc/1"
	}
	f := &filesystems{h: h, file: h.file(process + "/mounts"), devices: newInstances[filesystem](h, indomFilesys), tmpfs: newUnsavedInstances[filesystem](h, indomTmpfs), uuids: uuids{h: h}}
	if process != "proc/self" {
		f.reached = newReachedMounts(h, process)
	}
	f.source, f.always = &pmda.Source{Read: f.read}, &pmda.Source{Read: f.readFile}
	return f
}

// readMountinfo returns the mountinfo of a process, or nothing.
func readMountinfo(pid string) []byte {
	b, _ := os.ReadFile("/proc/" + pid + "/mountinfo")
	return b
}

// hasCopiedMounts reports whether a process has a copy of the host's mounts. Then
// its root is another mount of the same directory. In a container the root is
// another directory, and the host's mount points do not exist there.
func hasCopiedMounts(self, host []byte) bool {
	a, b := rootMount(self), rootMount(host)
	return a != nil && b != nil && a[0] != b[0] && a[2] == b[2] && a[3] == b[3]
}

// rootMount returns the fields of the mount at the root, proc_pid_mountinfo(5), or
// nil:
//
//	101 72 0:55 / / rw,relatime shared:2 - ext4 /dev/vda1 rw
//
// If several mounts are at the root, the last one hides the others.
func rootMount(mountinfo []byte) (root []string) {
	for line := range strings.Lines(string(mountinfo)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == "/" {
			root = f
		}
	}
	return root
}

// read reads the file if a file system was mounted or unmounted, or mounted with other
// options, since the last time. The kernel needs 70 us to write the text of 30 mounts.
func (f *filesystems) read(ctx context.Context, r *pmda.Request) error {
	if f.text != nil && f.file.Unchanged() && !f.devices.fileDue() {
		f.expire()
		return nil
	}
	return f.readFile(ctx, r)
}

// readFile reads the file. A file system that the kernel makes read-only because of an
// error is not mounted again, so read does not notice.
func (f *filesystems) readFile(context.Context, *pmda.Request) error {
	b, err := f.file.Read()
	if bytes.Equal(b, f.text) && f.text != nil && !f.devices.fileDue() {
		// The mounts are the same. Links need not be resolved again.
		f.expire()
		return err
	}
	f.text = append(f.text[:0], b...)
	f.parse(b)
	f.expire()
	if cerr := f.h.ended(); cerr != nil {
		f.text = nil // instances may be missing
		return cerr
	}
	return err
}

// expire makes the next fetch call statfs(2) again.
func (f *filesystems) expire() {
	for _, s := range []*instances[filesystem]{f.devices, f.tmpfs} {
		for fs := range s.all {
			fs.statfsDone = false
		}
	}
	if f.reached != nil {
		f.reached.read = false
	}
}

// statfsValue returns a FetchFunc that calls f with the result of statfs(2), which
// is called once in a fetch, and only for file systems that the client requests.
//
// C differs: it does not find mount points with blanks in their names.
func statfsValue(f func(v *pmda.Value, s *syscall.Statfs_t)) pmda.FetchFunc {
	return func(_ context.Context, v *pmda.Value) error {
		d := v.Data().(*filesystem)
		if !d.statfsDone {
			d.statfsDone = true
			d.valid, d.err = d.f.statfs(d)
		}
		if d.valid {
			f(v, &d.stat)
		}
		return d.err
	}
}

// statfs calls statfs(2) for d, by the guard if it may block, and reports whether d has
// values.
func (f *filesystems) statfs(d *filesystem) (valid bool, err error) {
	switch {
	case f.reached != nil:
		return f.reached.statfs(d)
	case d.inMemory:
		err = rawio.Statfs(d.path, &d.stat)
	default:
		var r *callResult
		r, err = f.h.guard.call(d.path, func(r *callResult) error { return syscall.Statfs(d.path, &r.statfs) })
		if err == nil {
			d.stat = r.statfs
		}
	}
	if err != nil && err != pdu.ErrnoAgain {
		err = pdu.ErrnoInst
	}
	return err == nil, err
}

// statfsKiB returns a FetchFunc for a number of blocks, converted to KiB.
func statfsKiB(blocks func(s *syscall.Statfs_t) uint64) pmda.FetchFunc {
	return statfsValue(func(v *pmda.Value, s *syscall.Statfs_t) { v.SetUint(metrics.Scale(blocks(s), uint64(s.Bsize), 1024)) })
}

func (f *filesystems) metrics() []pmda.Metric {
	blocks := statfsKiB(func(s *syscall.Statfs_t) uint64 { return s.Blocks })
	// More may be free than there is, in a file system of FUSE. Nothing is used then.
	usedBlocks := func(s *syscall.Statfs_t) uint64 { return s.Blocks - min(s.Blocks, s.Bfree) }
	used := statfsKiB(usedBlocks)
	free := statfsKiB(func(s *syscall.Statfs_t) uint64 { return s.Bfree })
	avail := statfsKiB(func(s *syscall.Statfs_t) uint64 { return s.Bavail })
	maxFiles := statfsValue(func(v *pmda.Value, s *syscall.Statfs_t) { v.SetUint(s.Files) })
	usedFiles := statfsValue(func(v *pmda.Value, s *syscall.Statfs_t) { v.SetUint(s.Files - min(s.Files, s.Ffree)) })
	freeFiles := statfsValue(func(v *pmda.Value, s *syscall.Statfs_t) { v.SetUint(s.Ffree) })
	blockSize := statfsValue(func(v *pmda.Value, s *syscall.Statfs_t) { v.SetUint(uint64(s.Bsize)) })
	full := statfsValue(func(v *pmda.Value, s *syscall.Statfs_t) {
		v.SetFloat(0)
		used := usedBlocks(s)
		if all := used + s.Bavail; all > 0 {
			v.SetFloat(100 * float64(used) / float64(all))
		}
	})
	uuid := pmda.FromData(func(v *pmda.Value, d *filesystem) { v.SetString(f.uuids.of(v.InstName())) })
	typ := pmda.FromData(func(v *pmda.Value, d *filesystem) { v.SetString(d.typ) })
	mountDir := pmda.FromData(func(v *pmda.Value, d *filesystem) { v.SetString(d.mount) })
	readonly := pmda.FromData(func(v *pmda.Value, d *filesystem) {
		if d.readonly {
			v.SetUint(1)
		} else {
			v.SetUint(0)
		}
	})
	devices := &pmda.InDom{Serial: indomFilesys, Insts: f.devices, Source: f.source}
	tmpfs := &pmda.InDom{Serial: indomTmpfs, Insts: f.tmpfs, Source: f.source}
	return slices.Concat(table(pmda.Metric{InDom: devices}, []row{
		{5, 1, "filesys.capacity", u64, discrete, kbyte, blocks},
		{5, 2, "filesys.used", u64, instant, kbyte, used},
		{5, 3, "filesys.free", u64, instant, kbyte, free},
		{5, 4, "filesys.maxfiles", u32, discrete, none, maxFiles},
		{5, 5, "filesys.usedfiles", u32, instant, none, usedFiles},
		{5, 6, "filesys.freefiles", u32, instant, none, freeFiles},
		{5, 7, "filesys.mountdir", str, discrete, none, mountDir},
		{5, 8, "filesys.full", double, instant, none, full},
		{5, 9, "filesys.blocksize", u32, instant, octet, blockSize},
		{5, 10, "filesys.avail", u64, instant, kbyte, avail},
		{5, 13, "filesys.type", str, discrete, none, typ},
	}), table(pmda.Metric{InDom: devices, Source: f.always}, []row{
		{5, 11, "filesys.readonly", u32, instant, none, readonly},
	}), table(pmda.Metric{InDom: devices, Source: &pmda.Source{Read: f.uuids.read}}, []row{
		{5, 12, "filesys.uuid", str, discrete, none, uuid},
	}), table(pmda.Metric{InDom: tmpfs}, []row{
		{34, 1, "tmpfs.capacity", u64, discrete, kbyte, blocks},
		{34, 2, "tmpfs.used", u64, instant, kbyte, used},
		{34, 3, "tmpfs.free", u64, instant, kbyte, free},
		{34, 4, "tmpfs.maxfiles", u32, discrete, none, maxFiles},
		{34, 5, "tmpfs.usedfiles", u32, instant, none, usedFiles},
		{34, 6, "tmpfs.freefiles", u32, instant, none, freeFiles},
		{34, 7, "tmpfs.full", double, instant, none, full},
	}), table(pmda.Metric{Source: f.source}, []row{
		{5, 0, "hinv.nfilesys", u32, discrete, count, pmda.FromUint(func() (uint64, bool) { return uint64(f.devices.present), true })},
	}))
}
