package background

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/logging"
	"github.com/gopcp/pmcd/internal/safepath"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// ReportFailure reports why pmcd has not started to the launcher, and in the file of -x
// (pmcd(1)). If file is "", it is the terminal, unless there is a launcher. out is nil
// if there is no log yet.
func (l *Launcher) ReportFailure(why error, file string, out *logging.File) {
	logged := out != nil && out.Opened && isRegular(out.Path) // a device or a FIFO cannot be copied
	if logged {
		l.failed(fmt.Sprintf("%v (see %s)", why, out.Path))
	}
	path := file
	if path == "" {
		if l != nil || !logged {
			return // it is on the standard error output
		}
		path = "/dev/tty"
	}
	f, err := openReport(path)
	if err != nil {
		return // there may be no terminal
	}
	defer f.Close()
	fmt.Fprint(f, "NOTE: pmcd not started due to errors!  ")
	if !logged {
		fmt.Fprintln(f, why)
		return
	}
	log, err := openLog(out)
	if err != nil {
		fmt.Fprintln(f, why)
		return
	}
	defer log.Close()
	fmt.Fprintf(f, "Log file %q contains ...\n", out.Path)
	io.Copy(f, log)
}

// openLog opens the log for reading. It is an error if another file has its path: where others may
// write, they may have put a link there, to a file that only root may read.
func openLog(out *logging.File) (*os.File, error) {
	f, err := regular.Open(out.Path)
	if err != nil {
		return nil, err
	}
	is, err := f.Stat()
	if err == nil {
		var log fs.FileInfo
		if log, err = out.Output.Stat(); err == nil && os.SameFile(is, log) {
			return f, nil
		}
	}
	f.Close()
	return nil, cmp.Or(err, errOtherFile)
}

var errOtherFile = errors.New("another file has the path of the log")

// openReport opens the file of -x for writing. In a directory that others may write to, root replaces a
// file, because another user may have made or linked it.
func openReport(path string) (*os.File, error) {
	d, file, err := safepath.OpenParent(path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	flag := os.O_WRONLY | os.O_CREATE | os.O_TRUNC | syscall.O_NOCTTY
	if os.Geteuid() == 0 && !d.Private {
		flag |= syscall.O_NOFOLLOW | syscall.O_NONBLOCK // to open a FIFO would wait for a reader
		if fi, err := os.Lstat(file); err != nil || fi.Mode().IsRegular() || fi.Mode().Type() == fs.ModeSymlink {
			os.Remove(file) // if that fails, creating it does
			flag |= os.O_EXCL
		}
	}
	return os.OpenFile(file, flag, 0o666)
}

func isRegular(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular()
}
