package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/safepath"
)

// A privateAcct is process accounting that the agent itself has switched on,
// acct(2), with a file of its own.
type privateAcct struct {
	acctFile
	path      string
	file      *os.File
	stopLimit func() // stops the goroutine that limits the file's size, and waits for its end
}

// startPrivateAcct switches accounting on, to a new file.
func startPrivateAcct(path string) (*privateAcct, error) {
	d, err := safepath.Make(filepath.Dir(path), 0o755)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	file := d.Join(filepath.Base(path))
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, d.Err(err)
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_EXCL, privateAcctMode)
	if err != nil {
		return nil, err
	}
	// The lock is held until the agent ends: stopAbandonedAcct takes a file without
	// a lock for that of an agent that was killed.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, os.NewSyscallError("flock", err)
	}
	p := &privateAcct{path: path, file: f, stopLimit: func() {}}
	// Not path: it could name another file by now.
	if err = syscall.Acct(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err != nil {
		err = os.NewSyscallError("acct", err)
	} else if err = p.check(int(f.Fd()), time.Now(), 0); err == nil && !p.active {
		err = fmt.Errorf("the kernel does not write to %s%s", path, nearlyFull(int(f.Fd())))
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// nearlyFull says so if the file system is too full for the kernel, which keeps accounting
// suspended while less than 4 % is free.
func nearlyFull(fd int) string {
	var st syscall.Statfs_t
	if syscall.Fstatfs(fd, &st) == nil && st.Bavail <= st.Blocks/25 {
		return ": less than 4 % of its file system is free"
	}
	return ""
}

// privateAcctMode is the mode of the file. PCP's agent has a file in the same
// place, with mode 0400, and does not lock it.
const privateAcctMode = 0o600

// stopAbandonedAcct switches off accounting that was switched on by an agent
// which was killed: the kernel would go on writing, and no process would limit the
// size of the file.
//
// C differs: it leaves that accounting on.
func stopAbandonedAcct(path string) {
	d, file, err := safepath.OpenParent(path)
	if err != nil {
		return
	}
	defer d.Close()
	f, err := os.OpenFile(file, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	fd := int(f.Fd())
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) != nil || st.Mode != syscall.S_IFREG|privateAcctMode || st.Uid != 0 ||
		syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		f.Close()
		return
	}
	p := &privateAcct{path: path, file: f, stopLimit: func() {}}
	p.stop()
}

// stop switches accounting off, unless the kernel writes to another file by now:
// then another program has switched it on.
func (p *privateAcct) stop() {
	p.stopLimit()
	if p.file == nil {
		return
	}
	fd := int(p.file.Fd())
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) == nil {
		if size, err := sizeAfterChild(fd); err == nil && size > st.Size {
			_, _, _ = syscall.Syscall(syscall.SYS_ACCT, 0, 0, 0) // syscall.Acct has no NULL
		}
	}
	safepath.Remove(p.path)
	p.file.Close()
	p.file = nil
}

// limitSize starts a goroutine that truncates the file to 0 bytes when it is
// longer than maxSize bytes, whether or not clients fetch its records.
func (p *privateAcct) limitSize(interval time.Duration, maxSize uint64) {
	p.stopLimit()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	p.stopLimit = func() {
		cancel()
		<-done
	}
	go func() {
		defer close(done)
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			if st, err := p.file.Stat(); err == nil && uint64(st.Size()) > maxSize {
				_ = p.file.Truncate(0)
			}
		}
	}()
}
