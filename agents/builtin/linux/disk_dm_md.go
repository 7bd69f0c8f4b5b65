package linux

import (
	"os"
	"path/filepath"
	"syscall"
)

// Device mapper and software RAID devices have the names that people have given
// to them.

// deviceNumber is the number of a device as stat(2) has it, see makedev(3).
func deviceNumber(major, minor uint64) uint64 {
	return major&0xfff<<8 | major&^0xfff<<32 | minor&0xff | minor&^0xff<<12
}

// dmName returns the name of a dm device; without one it is not an instance.
func (d *diskFiles) dmName(kernel []byte, dev uint64) []byte {
	h := d.h
	if name := h.hostReader.Path("/sys/block/").Name(string(kernel)).Str("/dm/name").Value(); len(name) > 0 {
		return name
	}
	// Linux before 2.6.29 has the name only in /dev.
	dir := h.path("dev/mapper")
	for _, e := range dirNames(dir) {
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
func (d *diskFiles) mdName(kernel []byte, _ uint64) []byte {
	dir := d.h.path("dev/md")
	for _, e := range dirNames(dir) {
		if e[0] == '.' || isDigit(e[0]) {
			continue
		}
		if to, err := os.Readlink(filepath.Join(dir, e)); err == nil && filepath.Base(to) == string(kernel) {
			return []byte(e)
		}
	}
	return kernel
}

// dirNames returns the names in a directory in the order in which the kernel has
// them; none if it cannot be read.
func dirNames(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return names
}

// mdStatus returns what "mdadm --detail --test" exits with, as wait(2) has it:
// 0 if the device is whole, 256 if it runs without some of its disks, 512 if it
// does not; -1 if that is not known.
//
// C differs: it runs mdadm, and has -1 without that; without the right to use
// the device it has 1024.
func (d *diskFiles) mdStatus(k *disk) int {
	state := d.h.blockDevice(k).Value("md/array_state")
	switch string(state) {
	case "":
		return -1
	case "clear", "inactive", "broken":
		return 2 << 8
	}
	if n, ok := d.h.blockDevice(k).Number("md/degraded"); ok && n > 0 {
		return 1 << 8
	}
	return 0
}
