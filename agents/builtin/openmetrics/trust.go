package openmetrics

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/internal/safepath"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// checkTrust returns an error if this process is root's (-u root), and another user can change the script
// that it would run, or the source by which it would read a file. It is the check that pmcd makes
// before it starts an agent as root.
//
// C differs: it runs all scripts.
func (s *source) checkTrust() error {
	if os.Geteuid() != 0 {
		return nil
	}
	return s.untrusted()
}

func (s *source) untrusted() error {
	var err error
	switch {
	case s.script:
		err = roothelper.CheckAgent(&pmcdconf.Agent{Kind: pmcdconf.Pipe, Argv: []string{s.path}})
	case s.file != nil && s.file.url.Scheme == "file":
		err = roothelper.CheckFile(s.path)
	}
	if err != nil {
		return fmt.Errorf("not read as root: %w", err)
	}
	return nil
}

// openFile opens the file that a URL of file: names. Other users may write the file, and as root the
// agent follows no link that they can have made: clients would get what only root may read.
func openFile(path string) (*os.File, error) {
	d, file, err := safepath.OpenParent(path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	f, err := regular.Open(file)
	if err != nil {
		return nil, d.Err(err)
	}
	if os.Geteuid() != 0 || d.Private || isNamed(f, file) {
		return f, nil
	}
	f.Close()
	return nil, &fs.PathError{Op: "open", Path: path, Err: safepath.ErrLink}
}

// isNamed reports whether path is the only name of f, and no symbolic link.
func isNamed(f *os.File, path string) bool {
	named, err := os.Lstat(path)
	if err != nil {
		return false
	}
	st, err := f.Stat()
	if err != nil || !os.SameFile(st, named) {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && sys.Nlink == 1
}
