// Package dsohost runs agents that are C shared objects ("dso" in pmcd.conf). Each
// has a process of its own, its host, which speaks the protocol of a PMDA on pipes.
// So the crash of one does not affect other agents.
//
// The host is another process of this program. A program that imports the package
// can be a host: a constructor in C takes over before the Go runtime starts. That
// requires cgo and glibc. PCP's libraries are not needed to build the program; the
// DSO brings them when it is loaded.
package dsohost

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// A DSO is the agent of a dso line in pmcd.conf.
type DSO struct {
	Name   string
	Domain int
	Entry  string // name of the function that initialises the agent
	Path   string
	// User is the user that the host becomes for good when the DSO has been
	// initialised, which requires root's rights. "" is the user that starts it.
	User string
}

// Check returns an error if a file is not a shared object. The error wraps
// fs.ErrNotExist if there is no file. Check does not find what only the dynamic
// linker can find, such as missing libraries.
func Check(path string) error {
	fi, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("cannot find the DSO: %w", err)
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("%s is not a shared object but %s", path, kindOf(fi.Mode()))
	}
	file, err := regular.Open(path)
	if err != nil {
		return fmt.Errorf("cannot read the DSO: %w", err)
	}
	defer file.Close()
	f, err := elf.NewFile(file)
	switch {
	case errors.As(err, new(*elf.FormatError)):
		return fmt.Errorf("%s is not a shared object: not an ELF file", path)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s is not a shared object: not an ELF file, or a truncated one", path)
	case err != nil:
		return fmt.Errorf("cannot read the DSO: %w", err)
	}
	if f.Type != elf.ET_DYN {
		return fmt.Errorf("%s is not a shared object: its ELF type is %v", path, f.Type)
	}
	if m := machine(); m != elf.EM_NONE && f.Machine != m { // the error of the linker would be that there is no such file
		return fmt.Errorf("%s is not a shared object for this machine: it is for %v", path, f.Machine)
	}
	// The dynamic linker maps segments beyond the end of the file, too, and is
	// killed by SIGBUS.
	for _, p := range f.Progs {
		if end := p.Off + p.Filesz; p.Type == elf.PT_LOAD && (end < p.Off || end > uint64(fi.Size())) {
			return fmt.Errorf("%s is a truncated shared object: it has %d bytes, and its header refers to more", path, fi.Size())
		}
	}
	return nil
}

// machine is the machine of this program, or EM_NONE if it is not known.
var machine = sync.OnceValue(func() elf.Machine {
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		return elf.EM_NONE
	}
	defer f.Close()
	return f.Machine
})

// kindOf returns what a file is that is not a regular file.
func kindOf(m os.FileMode) string {
	if m.IsDir() {
		return "a directory"
	}
	return "a special file"
}

// Supported returns an error if this program cannot be a host.
func Supported() error {
	if !supported {
		return errors.New("this pmcd was built without cgo or glibc and cannot run DSOs")
	}
	return nil
}

// Spec returns how to start a host for d. Errors of the host and all output of the
// DSO go to stderr. When the host has been started, [Ready] must be called.
func Spec(d DSO, stderr *os.File) (child.Spec, error) {
	if err := Supported(); err != nil {
		return child.Spec{}, err
	}
	// PCP's scripts take a process for pmcd if its name ends in /pmcd.
	argv := []string{"pmcd-dso: " + strings.ReplaceAll(d.Name, "/", "_"), strconv.Itoa(d.Domain), d.Entry, d.Path}
	if d.User != "" {
		argv = append(argv, d.User)
	}
	return child.Spec{
		// Not os.Executable: an update may have replaced or removed the file.
		Path:   "/proc/self/exe",
		Argv:   argv,
		Pipes:  true,
		Stderr: stderr,
	}, nil
}

// maxLine is the limit for the line that a host writes before the first PDU, in
// bytes.
const maxLine = 1024

// Ready waits until the host at the other end of conn has loaded the DSO and called
// its entry function, or until ctx ends. It returns the version of the agent's
// interface (PMDA_INTERFACE_7 is 7). The caller does the handshake of the PDU
// protocol next.
func Ready(ctx context.Context, conn *child.Pipes) (iface int, err error) {
	if conn == nil {
		return 0, errors.New("the DSO host has no pipes")
	}
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	line, err := readLine(conn)
	if !stop() {
		return 0, fmt.Errorf("the DSO was not initialised in time: %w", context.Cause(ctx))
	}
	if err != nil {
		return 0, fmt.Errorf("the DSO host ended while the DSO was loaded or initialised: %w", err)
	}
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "error":
		return 0, errors.New(rest)
	case "interface":
		if iface, err = strconv.Atoi(rest); err == nil {
			return iface, nil
		}
	}
	return 0, fmt.Errorf("unexpected line from the DSO host: %q", line)
}

// readLine reads a line and nothing after it, because PDUs follow.
func readLine(r io.Reader) (string, error) {
	var line []byte
	for b := make([]byte, 1); len(line) < maxLine; line = append(line, b[0]) {
		if _, err := io.ReadFull(r, b); err != nil {
			return "", err
		}
		if b[0] == '\n' {
			break
		}
	}
	return string(line), nil
}
