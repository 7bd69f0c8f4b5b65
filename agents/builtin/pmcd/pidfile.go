package pmcd

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gopcp/pmcd/pdu"
)

// What is in the directories of PCP belongs to whoever may write there, so
// nothing is believed: only so many names are looked at, symbolic links are
// not followed, and only regular files of a sensible size are read.

// maxPIDFiles is how many names of a directory are looked at.
const maxPIDFiles = 4096

// primaryName is the instance that the host's own pmlogger or pmie has beside
// the one named by its pid.
const primaryName = "primary"

// pidFiles returns the names of directory entries that are the pid of a live
// process, in the order of names.
func pidFiles(dir string) []pdu.Inst {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(maxPIDFiles) // an error means fewer names
	slices.Sort(names)
	var list []pdu.Inst
	for _, name := range names {
		if pid := parsePID(name); pid != 0 && alive(pid) {
			list = append(list, pdu.Inst{ID: pid, Name: name})
		}
	}
	return list
}

// parsePID returns the pid that s is, or 0.
func parsePID(s string) int32 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n <= 0 || s[0] < '1' || s[0] > '9' {
		return 0
	}
	return int32(n)
}

// alive reports whether there is a process of that pid.
func alive(pid int32) bool {
	err := syscall.Kill(int(pid), 0)
	return err == nil || err == syscall.EPERM
}

// readPID returns the pid in a file if it is that of a live process, else 0.
func readPID(path string) int32 {
	var buf [32]byte
	b, err := readSmall(path, buf[:])
	if err != nil {
		return 0
	}
	if pid := parsePID(strings.TrimSpace(string(b))); pid != 0 && alive(pid) {
		return pid
	}
	return 0
}

var errNotSmallFile = errors.New("not a regular file, or too large")

// readSmall reads a whole regular file, which must be smaller than buf. It
// returns a part of buf.
func readSmall(path string, buf []byte) ([]byte, error) {
	// Without O_NONBLOCK a FIFO would be waited for.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() >= int64(len(buf)) {
		return nil, errNotSmallFile
	}
	n, err := io.ReadFull(f, buf)
	switch {
	case err == nil: // it grew
		return nil, errNotSmallFile
	case err != io.EOF && err != io.ErrUnexpectedEOF:
		return nil, err
	}
	return buf[:n], nil
}

// linkedPID returns the pid that the last component of a symbolic link's
// target is, or 0.
func linkedPID(path string) int32 {
	target, err := os.Readlink(path)
	if err != nil {
		return 0
	}
	return parsePID(filepath.Base(target))
}

// cString returns b up to the first NUL, if there is one.
func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
