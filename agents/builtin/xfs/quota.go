package xfs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"github.com/gopcp/pmcd/agents/builtin/internal/metrics"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/pdu"
)

// The largest numbers of bytes that are read of files.
const (
	maxMounts   = 16 << 20
	maxProjects = 1 << 20

	// maxInactive is how many instances that are gone keep their ids.
	maxInactive = 10_000
)

// quotas are the quotas of projects on the file systems that are mounted.
type quotas struct {
	*host
	filesys  *cache.Cache // with a *filesys each
	projects *cache.Cache // with a *project each
}

type filesys struct {
	flags uint16
	known bool // the kernel has returned the flags
}

// A project has the usage and the limits of one project on one file system: fields
// of struct fs_disk_quota (linux/dqblk_xfs.h).
type project struct {
	spaceHard, spaceSoft, spaceUsed uint64 // in blocks of 512 bytes
	filesHard, filesSoft, filesUsed uint64
	spaceTimeLeft, filesTimeLeft    int32 // in seconds
}

func newQuotas(h *host) *quotas {
	return &quotas{
		host:     h,
		filesys:  cache.New(pdu.NewInDom(h.domain, indomFilesys), cache.Options{}),
		projects: cache.New(pdu.NewInDom(h.domain, indomProject), cache.Options{}),
	}
}

// Commands of quotactl(2), linux/dqblk_xfs.h.
const (
	qXGetQuota  = 'X'<<8 + 3
	qXGetQstat  = 'X'<<8 + 5
	qXQuotaSync = 'X'<<8 + 7

	projectAccounting  = 1 << 4 // FS_QUOTA_PDQ_ACCT
	projectEnforcement = 1 << 5 // FS_QUOTA_PDQ_ENFD
)

// quotactl calls quotactl(2) for quotas of projects.
func quotactl(cmd int, device string, id uint32, buf []byte) error {
	const prjQuota = 2
	path, err := syscall.BytePtrFromString(device)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall6(syscall.SYS_QUOTACTL, uintptr(cmd<<8|prjQuota), uintptr(unsafe.Pointer(path)),
		uintptr(id), uintptr(unsafe.Pointer(&buf[0])), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// read finds the mounted file systems, and the projects on them.
func (q *quotas) read(context.Context, *pmda.Request) error {
	q.filesys.HideAll()
	q.projects.HideAll()
	b, err := q.mounts()
	if err != nil {
		return err
	}
	var devices []string
	for m := range sysfile.Mounts(b) {
		if string(m.Type) == "xfs" && bytes.HasPrefix(m.Device, []byte("/dev")) {
			devices = append(devices, q.deviceName(string(m.Device)))
		}
	}
	var projects []byte
	for _, device := range devices {
		if isActive(q.filesys, device) {
			continue // it is mounted twice
		}
		fs := new(filesys)
		if _, err := q.filesys.Add(device, fs); err != nil {
			continue
		}
		fs.flags, fs.known = q.stateFlags(device)
		if fs.flags&projectAccounting == 0 {
			continue
		}
		if projects == nil {
			b, _ := q.Path("/etc/projects").Text(maxProjects)
			projects = append([]byte{}, b...)
		}
		q.findProjects(device, projects)
	}
	q.filesys.LimitInactive(maxInactive)
	q.projects.LimitInactive(maxInactive)
	return nil
}

// mounts returns the file of mounts. With another Options.Root, /proc/mounts has those of
// this process, in a container, if the tree is not a recorded one.
func (q *quotas) mounts() ([]byte, error) {
	if q.Root != "" {
		if b, err := q.Path("/proc/1/mounts").Text(maxMounts); !errors.Is(err, fs.ErrNotExist) {
			return b, err
		}
	}
	return q.Path("/proc/mounts").Text(maxMounts)
}

// deviceName returns the name of a device's instance. A symbolic link is resolved,
// unless it is in /dev/mapper or names an array: those names are persistent.
func (q *quotas) deviceName(name string) string {
	if strings.HasPrefix(name, "/dev/mapper") || strings.HasPrefix(name, "/dev/md") {
		return name
	}
	path, err := filepath.EvalSymlinks(q.Root + name)
	if rest, ok := strings.CutPrefix(path, q.Root); err == nil && ok {
		return rest
	}
	return name
}

// stateFlags returns the quota flags of a file system: qs_flags of struct
// fs_quota_stat. known is false if the file system is not reached, as in a container
// without the devices of the host, or may not be asked.
//
// C differs: it has 0 then.
func (q *quotas) stateFlags(device string) (flags uint16, known bool) {
	var buf [128]byte
	if err := q.quotactl(qXGetQstat, device, 0, buf[:]); err != nil {
		return 0, err == syscall.ENOSYS // the kernel has no quotas
	}
	return binary.NativeEndian.Uint16(buf[2:]), true
}

// findProjects finds the projects on a file system. The lines of /etc/projects are
//
//	ID:DIRECTORY
func (q *quotas) findProjects(device string, projects []byte) {
	var buf [128]byte
	_ = q.quotactl(qXQuotaSync, device, 0, buf[:])
	for len(projects) > 0 {
		var line []byte
		line, projects = sysfile.CutLine(projects)
		digits := line
		if i := bytes.IndexFunc(line, func(c rune) bool { return c < '0' || c > '9' }); i >= 0 {
			digits = line[:i]
		}
		id, ok := sysfile.Uint(digits)
		if !ok || id > 1<<32-1 {
			continue
		}
		name := string(digits) + ":" + device
		if isActive(q.projects, name) || q.quotactl(qXGetQuota, device, uint32(id), buf[:]) != nil {
			continue
		}
		p := new(project)
		p.parse(buf[:])
		_, _ = q.projects.Add(name, p) // fails only if all ids are used
	}
}

// isActive reports whether an instance has been added since all were hidden.
func isActive(c *cache.Cache, name string) bool {
	e, _ := c.LookupName(name)
	return e.State == cache.Active
}

// parse sets p to a struct fs_disk_quota.
func (p *project) parse(b []byte) {
	order := binary.NativeEndian
	p.spaceHard, p.spaceSoft, p.spaceUsed = order.Uint64(b[8:]), order.Uint64(b[16:]), order.Uint64(b[40:])
	p.filesHard, p.filesSoft, p.filesUsed = order.Uint64(b[24:]), order.Uint64(b[32:]), order.Uint64(b[48:])
	p.filesTimeLeft, p.spaceTimeLeft = int32(order.Uint32(b[56:])), int32(order.Uint32(b[60:]))
}

func (q *quotas) metrics() []pmda.Metric {
	source := &pmda.Source{Read: q.read}
	flag := func(bit uint16) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, fs *filesys) {
			switch {
			case !fs.known:
			case fs.flags&bit != 0:
				v.SetUint(1)
			default:
				v.SetUint(0)
			}
		})
	}
	number := func(f func(p *project) uint64) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, p *project) { v.SetUint(f(p)) })
	}
	seconds := func(f func(p *project) int32) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, p *project) { v.SetInt(int64(f(p))) })
	}
	const u32, i32, u64, discrete = pdu.MetricU32, pdu.Metric32, pdu.MetricU64, pdu.SemDiscrete
	return append(
		metrics.Table(pmda.Metric{InDom: &pmda.InDom{Serial: indomFilesys, Insts: q.filesys, Source: source}}, []row{
			{30, 0, "quota.state.project.accounting", u32, discrete, 0, flag(projectAccounting)},
			{30, 1, "quota.state.project.enforcement", u32, discrete, 0, flag(projectEnforcement)},
		}),
		metrics.Table(pmda.Metric{InDom: &pmda.InDom{Serial: indomProject, Insts: q.projects, Source: source}}, []row{
			{30, 6, "quota.project.space.hard", u64, discrete, pdu.Kbyte, number(func(p *project) uint64 { return p.spaceHard / 2 })},
			{30, 7, "quota.project.space.soft", u64, discrete, pdu.Kbyte, number(func(p *project) uint64 { return p.spaceSoft / 2 })},
			{30, 8, "quota.project.space.used", u64, discrete, pdu.Kbyte, number(func(p *project) uint64 { return p.spaceUsed / 2 })},
			{30, 9, "quota.project.space.time_left", i32, discrete, pdu.Sec, seconds(func(p *project) int32 { return p.spaceTimeLeft })},
			{30, 10, "quota.project.files.hard", u64, discrete, pdu.Count, number(func(p *project) uint64 { return p.filesHard })},
			{30, 11, "quota.project.files.soft", u64, discrete, pdu.Count, number(func(p *project) uint64 { return p.filesSoft })},
			{30, 12, "quota.project.files.used", u64, discrete, pdu.Count, number(func(p *project) uint64 { return p.filesUsed })},
			{30, 13, "quota.project.files.time_left", i32, discrete, pdu.Sec, seconds(func(p *project) int32 { return p.filesTimeLeft })},
		})...,
	)
}

// A row is a metric of a table.
type row metrics.Row
