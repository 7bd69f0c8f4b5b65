package pmcd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// Other users may be able to write to the directories of PCP, so their contents are
// not trusted: the number of names is limited, symbolic links are not followed, and
// only small regular files are read.

// maxPIDFiles is the largest number of names that are read of a directory.
const maxPIDFiles = 4096

// The host's own pmlogger or pmie has a second instance, beside the one of its pid.
const (
	primaryInst = 0
	primaryName = "primary"
)

// maxReaders is how many goroutines may read files at a time. Each of them holds a
// thread, for ever if the file system does not answer.
const maxReaders = 8

// slots limits how many goroutines do something at a time.
type slots chan struct{}

// acquire waits for a slot. If ctx ends first it returns the error of ctx; otherwise
// release must be called.
func (s slots) acquire(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	default:
	}
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slots) release() { <-s }

// do calls f in a slot. If ctx ends first it returns the error of ctx.
func (s slots) do(ctx context.Context, f func()) error {
	if err := s.acquire(ctx); err != nil {
		return err
	}
	defer s.release()
	f()
	return nil
}

// eachPIDFile calls use with the content of each file in dir whose name is the pid of a
// live process and that p selects, in the order of the names, and the instance of the file.
// At the end it calls use once more with the content of the file of the primary process and
// its second instance; primaryPID is 0 if that is not wanted. size is more than such a file
// has bytes. The error is that of ctx. A slot is held only while files are read, and not
// during a checkpoint.
func (a *Agent) eachPIDFile(ctx context.Context, dir string, size int, p pdu.InDomProfile, primaryPID int32, use func(inst pdu.Inst, b []byte)) error {
	files, err := a.pidFiles(ctx, dir)
	if err != nil {
		return err
	}
	var buf, primary []byte
	pace := pace{ctx: ctx}
	for _, file := range files {
		if err := pace.step(); err != nil {
			return err
		}
		selected, isPrimary := p.Includes(file.ID), file.ID == primaryPID
		if !selected && !isPrimary {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if buf == nil {
			buf = make([]byte, size)
		}
		var b []byte
		var unread error
		if err := a.files.do(ctx, func() { b, unread = readSmall(filepath.Join(dir, file.Name), buf) }); err != nil {
			return err
		}
		if unread != nil {
			continue
		}
		if selected {
			use(file, b)
		}
		if isPrimary {
			primary = bytes.Clone(b)
		}
	}
	if primary != nil {
		use(pdu.Inst{ID: primaryInst, Name: primaryName}, primary)
	}
	return nil
}

// pidFiles returns the directory entries whose name is the pid of a live process,
// sorted by name. If the directory cannot be read there are none; the error is that of ctx.
func (a *Agent) pidFiles(ctx context.Context, dir string) (list []pdu.Inst, err error) {
	var names []string
	if err := a.files.do(ctx, func() { names = fileNames(dir) }); err != nil {
		return nil, err
	}
	slices.Sort(names)
	pace := pace{ctx: ctx}
	for _, name := range names {
		if err := pace.step(); err != nil {
			return nil, err
		}
		if pid := parsePID(name); pid != 0 && alive(pid) {
			list = append(list, pdu.Inst{ID: pid, Name: name})
		}
	}
	return list, nil
}

// fileNames returns the names of at most maxPIDFiles files in dir.
func fileNames(dir string) []string {
	d, err := regular.OpenDir(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(maxPIDFiles) // after an error there are fewer names
	return names
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
