package linux

import (
	"context"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gopcp/pmcd/agents/pmda"
)

// volumes are the lines of /proc/diskstats for device mapper and software RAID,
// whose instances have the names that people have given to them.
type volumes struct {
	disks  *disks
	dm, md *insts[disk]
}

func newVolumes(h *host, d *disks) *volumes {
	return &volumes{disks: d, dm: newInsts[disk](h, indomDM), md: newInsts[disk](h, indomMD)}
}

func (o *volumes) readDM(ctx context.Context, r *pmda.Request) error {
	err := r.Read(ctx, o.disks.source)
	o.parse(o.dm, aDM, o.dmName)
	return err
}

func (o *volumes) readMD(ctx context.Context, r *pmda.Request) error {
	err := r.Read(ctx, o.disks.source)
	o.parse(o.md, anMD, o.mdName)
	return err
}

// parse sets the instances of one kind; naming returns the name of one, "" if
// it is not to be seen.
func (o *volumes) parse(s *insts[disk], want kind, naming func(kernel []byte, dev uint64) []byte) {
	s.begin()
	defer s.end()
	for b := o.disks.text; len(b) > 0; {
		var line []byte
		line, b = cutLine(b)
		major, minor, kernel, rest, ok := device(line)
		if !ok || diskKind(kernel) != want {
			continue
		}
		if name := naming(kernel, deviceNumber(major, minor)); len(name) > 0 {
			if k := s.add(name); k != nil {
				k.set(kernel, rest)
			}
		}
	}
}

// deviceNumber is the number of a device as stat(2) has it, see makedev(3).
func deviceNumber(major, minor uint64) uint64 {
	return major&0xfff<<8 | major&^0xfff<<32 | minor&0xff | minor&^0xff<<12
}

// dmName returns the name of a dm device; without one it is not an instance.
func (o *volumes) dmName(kernel []byte, dev uint64) []byte {
	h := o.disks.h
	if name := h.sys.read("sys", "block", string(kernel), "dm", "name"); len(name) > 0 {
		return name
	}
	// Linux before 2.6.29 has the name only in /dev.
	dir := h.path("dev/mapper")
	for _, e := range entries(dir) {
		st, err := os.Stat(filepath.Join(dir, e))
		if err != nil || st.Mode()&(os.ModeDevice|os.ModeCharDevice) != os.ModeDevice {
			continue
		}
		if s, ok := st.Sys().(*syscall.Stat_t); ok && uint64(s.Rdev) == dev {
			return []byte(e)
		}
	}
	return nil
}

// mdName returns the name of a link in /dev/md to the device, unless that is a
// number, else the kernel's name.
func (o *volumes) mdName(kernel []byte, _ uint64) []byte {
	dir := o.disks.h.path("dev/md")
	for _, e := range entries(dir) {
		if e[0] == '.' || isDigit(e[0]) {
			continue
		}
		if to, err := os.Readlink(filepath.Join(dir, e)); err == nil && filepath.Base(to) == string(kernel) {
			return []byte(e)
		}
	}
	return kernel
}

// entries returns the names in a directory in the order in which the kernel has
// them; none if it cannot be read.
func entries(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return names
}

func (o *volumes) metrics() []pmda.Metric {
	dm := diskInDom(indomDM, o.dm, &pmda.Source{Read: o.readDM}, "per dm device")
	md := diskInDom(indomMD, o.md, &pmda.Source{Read: o.readMD}, "per md device")
	kernel := of(func(v *pmda.Value, k *disk) { v.Bytes(k.kernel) })
	return append(
		table(pmda.Metric{InDom: dm}, []row{{54, 13, "hinv.map.dmname", str, discrete, none, kernel}}),
		table(pmda.Metric{InDom: md}, []row{{59, 13, "hinv.map.mdname", str, discrete, none, kernel}})...)
}
