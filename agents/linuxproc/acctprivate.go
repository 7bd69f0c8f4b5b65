package linuxproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// An acctPrivate is accounting that the agent has switched on itself, acct(2),
// with a file of its own.
type acctPrivate struct {
	acctFile
	file   *os.File
	limits func() // ends the goroutine that keeps the file short, and waits for that
}

// startAcct switches accounting on.
func startAcct(path string) (*acctPrivate, error) {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		if err = os.Remove(path); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return nil, err
	}
	p := &acctPrivate{file: f, limits: func() {}}
	// Not path: what is there could be another file by now.
	if err = syscall.Acct(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err != nil {
		err = os.NewSyscallError("acct", err)
	} else if err = p.look(int(f.Fd()), time.Now(), 0); err == nil && !p.active {
		err = errors.New("the kernel does not write to " + path)
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// stop switches accounting off, unless the kernel writes to another file by now:
// then somebody else has switched it on.
func (p *acctPrivate) stop() {
	p.limits()
	if p.file == nil {
		return
	}
	fd := int(p.file.Fd())
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) == nil {
		if size, err := grow(fd); err == nil && size > st.Size {
			_, _, _ = syscall.Syscall(syscall.SYS_ACCT, 0, 0, 0) // syscall.Acct has no NULL
		}
	}
	os.Remove(p.file.Name())
	p.file.Close()
	p.file = nil
}

// limit has the file made empty whenever it is found to be longer than most
// bytes. Whether anybody reads it makes no difference.
func (p *acctPrivate) limit(every time.Duration, most uint64) {
	p.limits()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	p.limits = func() {
		cancel()
		<-done
	}
	go func() {
		defer close(done)
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			if st, err := p.file.Stat(); err == nil && uint64(st.Size()) > most {
				_ = p.file.Truncate(0)
			}
		}
	}()
}
