package linux

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/pdu"
)

// reachedMounts calls statfs(2) for mounts of another process. In a container, the path
// of a mount point of the host may not exist, or lead to another file system. Values are
// only those of a file system that is the one which the other process has there.
//
// They are compared by the device and the root in mountinfo. stat(2) has another device
// for each subvolume of btrfs.
//
// C differs: it has the values of what it reaches.
type reachedMounts struct {
	h      *host
	named  *mountTable // of the other process
	own    *mountTable // of the process in whose root paths are looked up
	read   bool        // both were read in this request
	logged bool
}

// newReachedMounts returns the reachedMounts for a process, whose directory is relative
// to Options.Root.
func newReachedMounts(h *host, process string) *reachedMounts {
	named := &mountTable{file: h.file(process + "/mountinfo"), path: h.path(process + "/mountinfo")}
	if h.container != nil { // paths are looked up in the root of that process
		return &reachedMounts{h: h, named: named, own: named}
	}
	const path = "/proc/self/mountinfo"
	own := &mountTable{file: sysfile.NewFile(path), path: path}
	h.files = append(h.files, own.file)
	return &reachedMounts{h: h, named: named, own: own}
}

// statfs calls statfs(2) for d, and reports whether d has values.
func (m *reachedMounts) statfs(d *filesystem) (valid bool, err error) {
	var r *callResult
	if m.h.container != nil {
		r, err = m.h.container.openPath(d.path, 0)
	} else {
		r, err = m.h.guard.call(d.path, func(r *callResult) (err error) {
			if r.fd, err = syscall.Open(d.path, unix.O_PATH|syscall.O_CLOEXEC, 0); err != nil {
				return err
			}
			return r.inspect()
		})
	}
	switch {
	case err == nil:
		r.close()
	case errors.Is(err, fs.ErrNotExist):
		m.warn(d, fmt.Sprintf("%q does not exist", d.path))
		return false, nil
	case err == pdu.ErrnoAgain:
		return false, err
	default: // for instance in a directory that this user may not enter
		return false, nil
	}
	why, err := m.check(d, r.mount)
	if why != "" {
		m.warn(d, why)
	}
	if why != "" || err != nil {
		return false, err
	}
	d.stat = r.statfs
	return true, nil
}

// warn logs once why a file system of the host has no values. In a container, those that
// others hide have none, which needs no remedy.
func (m *reachedMounts) warn(d *filesystem, why string) {
	if m.logged || m.h.container != nil {
		return
	}
	m.logged = true
	remedy := fmt.Sprintf("mount / of the host at %[1]s, read-only and with what is mounted below it "+
		"(Kubernetes: mountPropagation HostToContainer; podman, docker: -v /:%[1]s:ro,rslave)", m.h.Root)
	if m.h.Root == "/" {
		remedy = "pmcd has mounts of its own, see options such as PrivateTmp= in its unit"
	}
	m.h.Log.Warn("{agent}: filesys and tmpfs have no values for {name:q} at {path:q} of the host, and for others that pmcd does not reach: {error}; {remedy}",
		"name", d.device, "path", d.mount, "error", why, "remedy", remedy)
}

// check returns why d has no value, or "" if mount id, to which the path of d leads, is
// what d names. The error is that of the context.
func (m *reachedMounts) check(d *filesystem, id uint64) (why string, err error) {
	if !m.read {
		// The table of this process is read last: it has what has come to this process from
		// the other one.
		for _, t := range []*mountTable{m.named, m.own} {
			if err := t.refresh(m.h); err != nil {
				return "", err
			}
		}
		m.read = true
	}
	want, ok := m.named.byPoint[mountPoint{d.mount, d.typ, d.device}]
	if !ok {
		return m.named.path + " does not list it", nil
	}
	got, ok := m.own.byID[id]
	if !ok {
		return fmt.Sprintf("%q is in a mount that %s does not list", d.path, m.own.path), nil
	}
	if got != want {
		return fmt.Sprintf("%q is in %s, not in %s", d.path, got, want), nil
	}
	return "", nil
}

// A mountTable has the mounts of a process, proc_pid_mountinfo(5):
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
//
// These are the number of the mount, of the one above it, the device, the directory of
// the file system that is mounted, the mount point, options, optional fields up to the
// hyphen, the type, the name of the device and options.
type mountTable struct {
	file    *sysfile.File
	path    string
	byID    map[uint64]mountSource
	byPoint map[mountPoint]mountSource // the last of several, which hides the others
}

// A mountSource is what is mounted.
type mountSource struct{ device, root string }

func (s mountSource) String() string {
	return fmt.Sprintf("directory %q of file system %q", s.root, s.device)
}

// A mountPoint has what is in a line of the file of mounts, too.
type mountPoint struct{ point, typ, device string }

// refresh reads the file, unless no file system was mounted or unmounted since. The table
// of a file that cannot be read is empty. The error is that of the context.
func (t *mountTable) refresh(h *host) error {
	if t.byID != nil && t.file.Unchanged() {
		return nil
	}
	t.byID = nil
	b, _ := t.file.Read()
	byID, byPoint := make(map[uint64]mountSource), make(map[mountPoint]mountSource)
	for len(b) > 0 {
		if err := h.ended(); err != nil {
			return err
		}
		var line []byte
		line, b = sysfile.CutLine(b)
		var f [6][]byte
		for i := range f {
			f[i], line = sysfile.Field(line)
		}
		word, line := sysfile.Field(line)
		for len(word) > 0 && string(word) != "-" {
			word, line = sysfile.Field(line)
		}
		typ, line := sysfile.Field(line)
		device, _, _ := bytes.Cut(bytes.TrimPrefix(line, []byte{' '}), []byte{' '}) // it may be empty
		id, ok := sysfile.Uint(f[0])
		if !ok || len(typ) == 0 {
			continue
		}
		s := mountSource{string(f[2]), string(f[3])}
		byID[id] = s
		byPoint[mountPoint{string(f[4]), string(typ), string(device)}] = s
	}
	t.byID, t.byPoint = byID, byPoint
	return nil
}

// inspect sets what the file with the descriptor says about its file system and mount.
func (r *callResult) inspect() error {
	if err := syscall.Fstatfs(r.fd, &r.statfs); err != nil {
		return err
	}
	r.mount = mountID(r.fd)
	return nil
}

// mountID returns the number of the mount that an open file is in, or 0 if it is not
// known.
func mountID(fd int) uint64 {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &st)
	if err == nil && st.Mask&unix.STATX_MNT_ID != 0 {
		return st.Mnt_id
	}
	return fdinfoMountID(fd)
}

// fdinfoMountID is mountID before Linux 5.8, or where a filter of system calls, or FUSE,
// refuses statx(2).
func fdinfoMountID(fd int) uint64 {
	b, _ := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		name, line := sysfile.Field(line)
		if string(name) == "mnt_id:" {
			word, _ := sysfile.Field(line)
			id, _ := sysfile.Uint(word)
			return id
		}
	}
	return 0
}
