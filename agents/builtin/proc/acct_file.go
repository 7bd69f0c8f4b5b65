package proc

import (
	"syscall"
	"time"
)

// An acctFile is a file of process accounting, and the position up to which it
// has been read.
type acctFile struct {
	dev, ino uint64
	offset   int64     // of the first record that has not been read, in bytes
	lastSize int64     // at the last check
	active   bool      // the kernel writes to it
	checked  time.Time // when active was last set
}

// check reads the size of the file, and decides whether the kernel writes to it:
// it does if the file has grown. If the file has not grown for interval, check
// lets a child process end and looks whether the kernel writes a record for it.
// Records that a file has when it is seen for the first time are skipped; all
// records of a file that replaces it are new.
func (f *acctFile) check(fd int, now time.Time, interval time.Duration) error {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return syscall.EINVAL
	}
	grown := false
	switch dev, ino := uint64(st.Dev), uint64(st.Ino); {
	case f.ino == 0:
		*f = acctFile{dev: dev, ino: ino, offset: st.Size}
	case f.dev != dev || f.ino != ino:
		*f = acctFile{dev: dev, ino: ino}
		grown = st.Size > 0
	case st.Size < f.offset: // it was truncated
		f.offset = 0
		grown = st.Size > 0
	default:
		grown = st.Size > f.lastSize
	}
	f.lastSize = st.Size
	switch {
	case grown:
		f.active, f.checked = true, now
	case f.checked.IsZero() || now.Sub(f.checked) > interval:
		size, err := sizeAfterChild(fd)
		if err != nil {
			return err
		}
		f.active, f.checked, f.lastSize = size > f.lastSize, now, size
	}
	return nil
}

// sizeAfterChild starts a child process, waits for its end, and returns the size
// of the file after that.
func sizeAfterChild(fd int) (size int64, err error) {
	// There is no program of this name: the execve of the child fails, the child
	// exits, and ForkExec waits for it.
	_, _ = syscall.ForkExec("", nil, nil)
	var st syscall.Stat_t
	err = syscall.Fstat(fd, &st)
	return st.Size, err
}

// read calls add for each record written since the last call. If there are more
// than maxRecords, it skips the oldest.
func (f *acctFile) read(fd, maxRecords int, add func(r *acctRecord)) {
	if first := f.lastSize - int64(maxRecords)*acctSize; f.offset < first {
		f.offset += (first - f.offset + acctSize - 1) / acctSize * acctSize
	}
	var buf [64 * acctSize]byte
	for f.lastSize-f.offset >= acctSize {
		want := min(int64(len(buf)), (f.lastSize-f.offset)/acctSize*acctSize)
		n, err := syscall.Pread(fd, buf[:want], f.offset)
		if err == syscall.EINTR {
			continue
		}
		for b := buf[:max(n, 0)]; len(b) >= acctSize; b = b[acctSize:] {
			r, ok := parseAcct(b)
			if !ok {
				f.active, f.offset = false, f.lastSize
				return
			}
			add(&r)
			f.offset += acctSize
		}
		if n < acctSize {
			return // it was truncated just now
		}
	}
}
