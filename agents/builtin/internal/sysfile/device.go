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
	r      *Reader
	parent string
	name   string
	fd     int    // of the directory, -1 if it is not open
	turn   uint64 // when it was last looked at
	since  uint64 // the turn in which it was opened
	plain  bool   // it had no uevent when that was last looked for
	files  []deviceFile
}

type deviceFile struct {
	name string
	fd   int    // -1 if it is not open
	turn uint64 // when it was read
	text []byte
}

const (
	// maxOpen is how many descriptors the devices of a Reader have at most, half
	// of them of files, each of which costs the kernel a page. What is not open
	// is opened each time.
	maxOpen = 400
	// openShare is the part of RLIMIT_NOFILE, one in so many, that they have if
	// that is less. The daemon counts on both numbers.
	openShare = 16
	// maxAge is how many turns a device stays open that is not asked for.
	maxAge = 64
)

// most is how many descriptors the devices of r may have.
func (r *Reader) most() int {
	if r.max == 0 {
		var limit syscall.Rlimit
		if r.max = maxOpen; syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
			r.max = int(min(maxOpen, limit.Cur/openShare))
		}
	}
	return r.max
}

// Begin begins a turn, in which a name is believed to mean one device, and a
// file to have one text.
func (r *Reader) Begin() {
	r.turn++
	if r.turn%maxAge != 0 {
		return
	}
	for _, devices := range r.devices {
		for name, d := range devices {
			d.plain = false
			if d.turn+maxAge < r.turn {
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
	if d.turn != r.turn || r.turn == 0 {
		d.turn = r.turn
		if d.fd < 0 || r.Renames && !d.isCalled(name) {
			d.close()
			d.open()
		}
	}
	return d
}

// Since returns a number that stays the same as long as the device is known to
// be the same.
func (d *Device) Since() uint64 { return d.since }

// Exists reports whether the device has a file or directory.
func (d *Device) Exists(file string) bool { return d.path(file).Exists() }

// Value returns the text of a file that has one value, without blanks around it;
// nothing if it cannot be read. It is valid until the next turn or Fresh.
func (d *Device) Value(file string) []byte {
	f := d.file(file)
	if f.turn != d.turn || d.turn == 0 {
		d.read(f)
	}
	return f.text
}

func (d *Device) read(f *deviceFile) {
	b, err := d.present(f)
	if err != nil && d.fd >= 0 && f.name != "uevent" && !d.isCalled(d.name) {
		d.close()
		d.open()
		b, _ = d.present(f)
	}
	f.turn, f.text = d.turn, append(f.text[:0], b...)
}

// present returns what a file has now. It is valid until the next call of the
// Reader's.
func (d *Device) present(f *deviceFile) ([]byte, error) {
	if f.fd < 0 && d.fd >= 0 && d.r.files < d.r.most()/2 {
		if fd, err := d.path(f.name).fd(0); err == nil {
			f.fd = fd
			d.r.open++
			d.r.files++
		}
	}
	if f.fd < 0 {
		return d.path(f.name).value()
	}
	return d.r.trim(syscall.Pread(f.fd, d.r.page(), 0))
}

// Fresh is Value as it is at this moment, whatever the turn.
func (d *Device) Fresh(file string) []byte {
	d.file(file).turn = 0
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
	d.since = d.turn + 1
	if d.plain || d.r.Open != nil || d.r.open >= d.r.most() {
		return
	}
	fd, err := d.r.Path(d.parent).Name(d.name).fd(syscall.O_DIRECTORY)
	if err != nil {
		return
	}
	d.fd = fd
	d.r.open++
	if !d.isCalled(d.name) {
		d.plain = !d.Exists("uevent")
		d.close()
	}
}

// close closes the directory and the files.
func (d *Device) close() {
	for i := range d.files {
		f := &d.files[i]
		if f.fd >= 0 {
			syscall.Close(f.fd)
			d.r.open--
			d.r.files--
		}
		f.fd, f.turn = -1, 0
	}
	if d.fd >= 0 {
		syscall.Close(d.fd)
		d.fd = -1
		d.r.open--
	}
}

// isCalled reports whether the device that is open has a name, now. Of uevent
// see the kernel's Documentation/ABI; it has those of interfaces and disks.
func (d *Device) isCalled(name string) bool {
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
