//go:build aix || darwin || dragonfly || freebsd || linux || netbsd || openbsd

package mmv

import (
	"os"
	"runtime"
	"syscall"
)

func newMapping(f *os.File, size int) (*mapping, error) {
	data, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	m := &mapping{data}
	runtime.AddCleanup(m, func(data []byte) { syscall.Munmap(data) }, data)
	return m, nil
}
