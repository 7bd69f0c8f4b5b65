package sysfile

import (
	"bytes"
	"syscall"
)

// A Device is a directory of /sys with files that are read again and again. It
// stays open, and so do they: the way to a file costs the kernel more than ten
// times what its text does. But its name may be another device's by now. Then
// it has gone, and nothing of it can be read, or was renamed, see
// [Reader.Renames]: the file uevent says what it is called. One without it, as
// in recorded trees, does not stay open, nor does one of a Reader with Open: a
// link in it would lead out of where that stays in.
type Device struct {
	r          *Reader
	parent     string
	name       string
	fd         int    // of the directory, -1 if it is not open
	generation uint64 // when it was last looked at
	identity   uint64 // the turn in which it was opened
	noUevent   bool   // it had no uevent when that was last looked for
	files      []deviceFile
}

type deviceFile struct {
	name       string
	fd         int    // -1 if it is not open
	generation uint64 // when it was read
	text       []byte
}

const (
	// maxOpen is how many descriptors the devices of a Reader have at most, half
	// of them of files, each of which costs the kernel a page. What is not open
	// is opened each time.
	maxOpen = 400
	// rlimitShare is the part of RLIMIT_NOFILE, one in so many, that they have if
	// that is less. The daemon counts on both numbers.
	rlimitShare = 16
	// maxIdle is how many turns a device stays open that is not asked for.
	maxIdle = 64
)

// openLimit is how many descriptors the devices of r may have.
func (r *Reader) openLimit() int {
	if r.limit == 0 {
		var limit syscall.Rlimit
		if r.limit = maxOpen; syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
			r.limit = int(min(maxOpen, limit.Cur/rlimitShare))
		}
	}
	return r.limit
}

// Begin begins a turn, in which a name is believed to mean one device, and a
// file to have one text.
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

// Device returns the device with a name in a directory of /sys, which ends in /.
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

// Identity returns a number that stays the same as long as the device is known to
// be the same.
func (d *Device) Identity() uint64 { return d.identity }

// Exists reports whether the device has a file or directory.
func (d *Device) Exists(file string) bool { return d.path(file).Exists() }

// Value returns the text of a file that has one value, without blanks around it;
// nothing if it cannot be read. It is valid until the next turn or Reread.
func (d *Device) Value(file string) []byte {
	f := d.file(file)
	if f.generation != d.generation || d.generation == 0 {
		d.refresh(f)
	}
	return f.text
}

func (d *Device) refresh(f *deviceFile) {
	b, err := d.readFile(f)
	if err != nil && d.fd >= 0 && f.name != "uevent" && !d.hasName(d.name) {
		d.close()
		d.open()
		b, _ = d.readFile(f)
	}
	f.generation, f.text = d.generation, append(f.text[:0], b...)
}

// readFile returns what a file has now. It is valid until the next call of the
// Reader's.
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

// Reread is Value as it is at this moment, whatever the turn.
func (d *Device) Reread(file string) []byte {
	d.file(file).generation = 0
	return d.Value(file)
}

// Number returns the decimal number that the Value of a file starts with; ok is
// false if it does not.
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

// open opens the directory. Unless uevent has its name it does not stay open.
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

// hasName reports whether the device that is open has a name, now. Of uevent
// see the kernel's Documentation/ABI; it has those of interfaces and disks.
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
