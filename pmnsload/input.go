package pmnsload

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// maxLine is the longest line in bytes, before and after macros are replaced.
// C pmcd differs: it refuses a line of 256 bytes as "Absurdly long".
const maxLine = 64 << 10

// blanks are the bytes that separate words: those of isspace(3).
const blanks = " \t\v\f\r\n"

// A budget is the rest of Options.MaxBytes.
type budget struct{ left int64 }

func (b *budget) spend(n int64) error {
	if b.left -= n; b.left < 0 {
		return ErrSize
	}
	return nil
}

// A lineSource yields lines without their newlines, and then io.EOF. A line is valid
// until the next call.
type lineSource interface {
	next() ([]byte, error)
}

// An input is a file being read.
type input struct {
	name  string
	line  int // number of the line last read
	rc    io.ReadCloser
	r     *bufio.Reader
	spent *budget
}

func newInput(name string, rc io.ReadCloser, spent *budget) *input {
	return &input{name: name, rc: rc, r: bufio.NewReaderSize(rc, maxLine), spent: spent}
}

// next returns the next line. C pmcd differs: pmcpp drops a last line without newline,
// and the parser refuses it as "Absurdly long".
func (in *input) next() ([]byte, error) {
	line, err := in.r.ReadSlice('\n')
	if err == io.EOF && len(line) > 0 {
		err = nil
	}
	if err == io.EOF {
		return nil, err
	}
	in.line++
	if err == bufio.ErrBufferFull {
		err = ErrLine
	}
	if err == nil {
		err = in.spent.spend(int64(len(line)))
	}
	return bytes.TrimSuffix(line, []byte("\n")), err
}

func (in *input) close() error { return in.rc.Close() }

// openFile opens a regular file. It returns no *os.File, so that there is no nil one.
func openFile(path string) (io.ReadCloser, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// A ShellFunc runs the command of a #shell line and returns its output. Close
// waits for the command to exit. If the output was not read to its end, Close
// kills the command first. Its error reports that the command failed, which is a
// warning only.
type ShellFunc func(command string) (io.ReadCloser, error)

// Shell runs commands by /bin/sh until ctx is done.
func Shell(ctx context.Context) ShellFunc {
	return func(command string) (io.ReadCloser, error) {
		s := &shell{cmd: exec.CommandContext(ctx, "/bin/sh", "-c", command)}
		s.cmd.Stderr = &s.stderr
		// A process group of its own, so that the shell's children are killed
		// with it and do not keep its standard output open.
		s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		s.cmd.Cancel = s.kill
		s.cmd.WaitDelay = time.Second // for processes outside of the group that keep standard error open
		out, err := s.cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		s.out = out
		if err := s.cmd.Start(); err != nil {
			return nil, err
		}
		return s, nil
	}
}

type shell struct {
	cmd    *exec.Cmd
	out    io.Reader
	eof    bool
	stderr head
}

func (s *shell) Read(p []byte) (int, error) {
	n, err := s.out.Read(p)
	s.eof = s.eof || err == io.EOF
	return n, err
}

func (s *shell) kill() error {
	return syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
}

func (s *shell) Close() error {
	if !s.eof {
		s.kill()
	}
	err := s.cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	said := ""
	if s.stderr.n > 0 {
		said = fmt.Sprintf(" (%s)", bytes.TrimRight(s.stderr.buf[:s.stderr.n], blanks))
	}
	if ws := exit.Sys().(syscall.WaitStatus); ws.Signaled() {
		return fmt.Errorf("#shell cmd terminated by signal %d%s", ws.Signal(), said)
	}
	return fmt.Errorf("#shell cmd returns %d exit status%s", exit.ExitCode(), said)
}

// A head keeps the start of what is written to it.
type head struct {
	buf [512]byte
	n   int
}

func (h *head) Write(p []byte) (int, error) {
	h.n += copy(h.buf[h.n:], p)
	return len(p), nil
}
