package pmdaroot

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
)

// Listening reports whether a process listens on the Unix socket at path. It does
// not connect. Users other than root may be unable to see the file, because the
// directory of PCP's packages is root's: then the kernel's list of sockets decides.
func Listening(path string) bool {
	fi, err := os.Stat(path)
	if err == nil {
		return fi.Mode().Type() == fs.ModeSocket
	}
	if !errors.Is(err, fs.ErrPermission) {
		return false
	}
	f, err := os.Open("/proc/net/unix")
	if err != nil {
		return false
	}
	defer f.Close()
	// Num RefCount Protocol Flags Type St Inode Path, proc_net(5)
	for s := bufio.NewScanner(f); s.Scan(); {
		line, ok := bytes.CutSuffix(s.Bytes(), []byte(" "+path))
		if f := bytes.Fields(line); ok && len(f) == 7 && string(f[3]) == "00010000" { // __SO_ACCEPTCON
			return true
		}
	}
	return false
}
