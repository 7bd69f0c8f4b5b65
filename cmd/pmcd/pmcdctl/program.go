package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// findProgram returns the path of another program of pmcd: in the directory of this program, in the
// libexec directory beside it, in that in which the deb of pmcd-swap has pmcd, or in PATH.
func findProgram(name string, executable func() (string, error), lookPath func(string) (string, error)) (string, error) {
	var tried []string
	if self, err := executable(); err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		bin := filepath.Dir(self)
		usr := filepath.Dir(bin)
		for _, dir := range []string{bin, filepath.Join(usr, "libexec/pcp"), filepath.Join(usr, "lib/pcp/bin")} {
			path, err := lookPath(filepath.Join(dir, name))
			if err == nil {
				return path, nil
			}
			if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.EISDIR) {
				return "", err
			}
			tried = append(tried, dir)
		}
	}
	path, err := lookPath(name)
	if err == nil {
		return path, nil
	}
	return "", fmt.Errorf("%s is not installed: it is neither in %q nor in PATH", name, tried)
}
