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

// Other users may be able to write to the directories of PCP, so their contents are
// not trusted: the number of names is limited, symbolic links are not followed, and
// only small regular files are read.

// maxPIDFiles is the largest number of names that are read of a directory.
const maxPIDFiles = 4096

// primaryName is the name of the second instance of the host's own pmlogger or pmie,
// beside the one named by its pid.
const primaryName = "primary"

// pidFiles returns the directory entries whose name is the pid of a live process,
// sorted by name.
func pidFiles(dir string) []pdu.Inst {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(maxPIDFiles) // after an error there are fewer names
	slices.Sort(names)
	var list []pdu.Inst
	for _, name := range names {
		if pid := parsePID(name); pid != 0 && alive(pid) {
			list = append(list, pdu.Inst{ID: pid, Name: name})
		}
	}
	return list
}

// parsePID parses s as a pid; 0 if it is not one.
func parsePID(s string) int32 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n <= 0 || s[0] < '1' || s[0] > '9' {
		return 0
	}
	return int32(n)
}

// alive reports whether there is a process with that pid.
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

// readSmall reads a regular file that is smaller than buf into buf, and returns that
// part of buf.
func readSmall(path string, buf []byte) ([]byte, error) {
	// Without O_NONBLOCK the open of a FIFO would block.
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
	case err == nil: // the file has grown
		return nil, errNotSmallFile
	case err != io.EOF && err != io.ErrUnexpectedEOF:
		return nil, err
	}
	return buf[:n], nil
}

// linkedPID returns the pid in the last element of a symbolic link's target, or 0.
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
