package pmcd

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/pidfile"
	"github.com/gopcp/pmcd/pdu"
)

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
// when the context is looked at.
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
		if err := a.files.do(ctx, func() { b, unread = pidfile.Read(filepath.Join(dir, file.Name), buf) }); err != nil {
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
	if err := a.files.do(ctx, func() { names, _ = pidfile.Names(dir, maxPIDFiles) }); err != nil {
		return nil, err
	}
	slices.Sort(names)
	pace := pace{ctx: ctx}
	for _, name := range names {
		if err := pace.step(); err != nil {
			return nil, err
		}
		if pid := pidfile.Parse(name); pid != 0 && pidfile.Alive(pid) {
			list = append(list, pdu.Inst{ID: pid, Name: name})
		}
	}
	return list, nil
}

// readPID returns the pid in a file if it is that of a live process, else 0.
func readPID(path string) int32 {
	var buf [32]byte
	b, err := pidfile.Read(path, buf[:])
	if err != nil {
		return 0
	}
	if pid := pidfile.Parse(strings.TrimSpace(string(b))); pid != 0 && pidfile.Alive(pid) {
		return pid
	}
	return 0
}

// linkedPID returns the pid in the last element of a symbolic link's target, or 0.
func linkedPID(path string) int32 {
	target, err := os.Readlink(path)
	if err != nil {
		return 0
	}
	return pidfile.Parse(filepath.Base(target))
}

// cString returns b up to the first NUL, if there is one.
func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
