package linux

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// Instances of device mapper and software RAID devices have the names that admins
// have chosen.

// deviceNumber returns the device number as stat(2) has it, see makedev(3).
func deviceNumber(major, minor uint64) uint64 {
	return major&0xfff<<8 | major&^0xfff<<32 | minor&0xff | minor&^0xff<<12
}

// dmName returns the name of a dm device, or nothing. A device without a name is
// not an instance.
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

// mdName returns the name of a link in /dev/md to the device that does not begin
// with a digit. If there is none, it returns the kernel's name.
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

// dirNames returns the names in a directory, in the order of the kernel, or nil if
// the directory cannot be read.
func dirNames(dir string) []string {
	f, err := regular.OpenDir(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return names
}

// mdStatus returns the exit status of "mdadm --detail --test" in the form of
// wait(2): 0 if the device is complete, 256 if it is degraded, 512 if it does not
// run, and -1 if its state is not known.
//
// C differs: it runs mdadm. It has -1 if mdadm does not exist, 1024 without the right to
// use the device, and 512 for a container of IMSM or DDF.
func (d *diskFiles) mdStatus(k *disk) int {
	state := d.h.blockDevice(k).Value("md/array_state")
	switch string(state) {
	case "":
		return -1
	case "clear", "inactive", "broken":
		// A container holds the disks of other devices and never runs itself. Those have "external:/" or
		// "external:-" and the name of the container.
		format, external := bytes.CutPrefix(d.h.blockDevice(k).Value("md/metadata_version"), []byte("external:"))
		if external && len(format) > 0 && format[0] != '/' && format[0] != '-' {
			return 0
		}
		return 2 << 8
	}
	if n, ok := d.h.blockDevice(k).Number("md/degraded"); ok && n > 0 {
		return 1 << 8
	}
	return 0
}
