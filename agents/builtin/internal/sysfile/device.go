package sysfile

import (
	"bytes"
	"syscall"
)

// A Device is a directory of /sys with files that are read repeatedly. The
// directory and its files stay open, because a path look-up costs the kernel more
// than ten times as much as the text of a file.
//
// By the next read the name may belong to another device. Either the first device
// was removed, and reads of its files fail; or it was renamed, see
// [Reader.Renames], and its file uevent has the new name. A directory without
// uevent, as in recorded trees, does not stay open. Neither does a directory of a
// Reader with Open, because a link in it could lead out of the tree that Open
// stays in.
type Device struct {
	r          *Reader
	parent     string
	name       string
	fd         int    // of the directory, -1 if it is not open
	generation uint64 // of the last call of Reader.Device
	identity   uint64 // 1 + the generation in which it was opened
	noUevent   bool   // there was no uevent at the last open
	files      []deviceFile
}

type deviceFile struct {
	name       string
	fd         int    // -1 if it is not open
	generation uint64 // of the last read
	text       []byte
	err        error // of that read
}

const (
	// maxOpen is the largest number of descriptors that the devices of a Reader
	// may have. At most half of them are of files, because each open file costs
	// the kernel a page. A file that is not kept open is opened for each read.
	maxOpen = 400
	// rlimitShare limits the devices to one in so many of the descriptors of
	// RLIMIT_NOFILE, if that is fewer than maxOpen. The daemon relies on both
	// limits.
	rlimitShare = 16
	// maxIdle is the number of generations after which a device that is not used
	// is closed.
	maxIdle = 64
)

// openLimit returns the number of descriptors that the devices of r may have.
func (r *Reader) openLimit() int {
	if r.limit == 0 {
		var limit syscall.Rlimit
		if r.limit = maxOpen; syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
			r.limit = int(min(maxOpen, limit.Cur/rlimitShare))
		}
	}
	return r.limit
}

// Begin begins a generation. Within a generation a name is taken to mean the same
// device, and each file is read once.
func (r *Reader) Begin() {
	r.generation++
	if r.generation%maxIdle != 0 {
		return
	}
	for _, devices := range r.devices {
		for name, d := range devices {
			d.noUevent = false
			if d.generation+maxIdle < r.generation {
				d.close()
				delete(devices, name)
			}
		}
	}
}

// Close closes all devices.
func (r *Reader) Close() {
	for _, devices := range r.devices {
		for _, d := range devices {
			d.close()
		}
	}
	r.devices = nil
}

// Device returns the device with a name in parent, a directory of /sys. parent
// ends in /.
func (r *Reader) Device(parent, name string) *Device {
	d := r.devices[parent][name]
	if d == nil {
		d = &Device{r: r, parent: parent, name: name, fd: -1}
		if r.devices == nil {
			r.devices = make(map[string]map[string]*Device)
		}
		if r.devices[parent] == nil {
			r.devices[parent] = make(map[string]*Device)
		}
		r.devices[parent][name] = d
	}
	if d.generation != r.generation || r.generation == 0 {
		d.generation = r.generation
		if d.fd < 0 || r.Renames && !d.hasName(name) {
			d.close()
			d.open()
		}
	}
	return d
}

// Identity returns a number that changes when d may have become another device.
func (d *Device) Identity() uint64 { return d.identity }

// Exists reports whether the device has a file or directory.
func (d *Device) Exists(file string) bool { return d.path(file).Exists() }

// Value returns the text of a file that has one value, without white space at its
// ends, or nothing if the file cannot be read. It is valid until the next
// generation or Reread.
func (d *Device) Value(file string) []byte {
	f := d.file(file)
	if f.generation != d.generation || d.generation == 0 {
		d.refresh(f)
	}
	return f.text
}

// refresh reads f. If that fails, the name may belong to another device by now,
// whose file it reads then.
func (d *Device) refresh(f *deviceFile) {
	b, err := d.readFile(f)
	if err != nil && d.fd >= 0 && f.name != "uevent" && !d.hasName(d.name) {
		d.close()
		d.open()
		b, err = d.readFile(f)
	}
	f.generation, f.text, f.err = d.generation, append(f.text[:0], b...), err
}

// readFile returns the current text of a file. It is valid until the next call of
// a method of the Reader.
func (d *Device) readFile(f *deviceFile) ([]byte, error) {
	if f.fd < 0 && d.fd >= 0 && d.r.openFiles < d.r.openLimit()/2 {
		if fd, err := d.path(f.name).openPath(0); err == nil {
			f.fd = fd
			d.r.openCount++
			d.r.openFiles++
		}
	}
	if f.fd < 0 {
		return d.path(f.name).value()
	}
	return d.r.trim(syscall.Pread(f.fd, d.r.page(), 0))
}

// Absent reports whether the last Value of a file of this kind was nothing because there
// is nothing to read.
func (d *Device) Absent(file string, kind Kind) bool { return kind.Absent(d.file(file).err) }

// Reread is Value, but reads the file again in the same generation.
func (d *Device) Reread(file string) []byte {
	d.file(file).generation = 0
	return d.Value(file)
}

// Number returns the decimal number at the start of the Value of a file. ok is
// false if there is none.
func (d *Device) Number(file string) (n uint64, ok bool) {
	word, _ := Field(d.Value(file))
	return Uint(word)
}

func (d *Device) file(name string) *deviceFile {
	for i := range d.files {
		if d.files[i].name == name {
			return &d.files[i]
		}
	}
	d.files = append(d.files, deviceFile{name: name, fd: -1})
	return &d.files[len(d.files)-1]
}

// path starts the path of a file of the device.
func (d *Device) path(file string) *Reader {
	if d.fd < 0 {
		return d.r.Path(d.parent).Name(d.name).Str("/").Str(file)
	}
	d.r.dir, d.r.path = d.fd, d.r.path[:0]
	return d.r.Str(file)
}

// open opens the directory. It closes it again unless uevent has its name.
func (d *Device) open() {
	d.identity = d.generation + 1
	if d.noUevent || d.r.Open != nil || d.r.openCount >= d.r.openLimit() {
		return
	}
	fd, err := d.r.Path(d.parent).Name(d.name).openPath(syscall.O_DIRECTORY)
	if err != nil {
		return
	}
	d.fd = fd
	d.r.openCount++
	if !d.hasName(d.name) {
		d.noUevent = !d.Exists("uevent")
		d.close()
	}
}

// close closes the directory and the files.
func (d *Device) close() {
	for i := range d.files {
		f := &d.files[i]
		if f.fd >= 0 {
			syscall.Close(f.fd)
			d.r.openCount--
			d.r.openFiles--
		}
		f.fd, f.generation = -1, 0
	}
	if d.fd >= 0 {
		syscall.Close(d.fd)
		d.fd = -1
		d.r.openCount--
	}
}

// hasName reports whether the device that is open has this name now. The file
// uevent has the names of interfaces and disks, see the kernel's
// Documentation/ABI.
func (d *Device) hasName(name string) bool {
	for b := d.Value("uevent"); len(b) > 0; {
		var line []byte
		line, b = CutLine(b)
		key, value, _ := bytes.Cut(line, []byte{'='})
		if k := string(key); (k == "INTERFACE" || k == "DEVNAME") && string(value) == name {
			return true
		}
	}
	return false
}
