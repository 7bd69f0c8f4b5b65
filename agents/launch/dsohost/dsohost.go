// Package dsohost runs agents that are C shared objects ("dso" in pmcd.conf),
// each in a process of its own, where it speaks the protocol of a PMDA on
// pipes. So the fault of one costs that agent only.
//
// The process is this program again: importing the package makes a program one
// that can be a host, by a constructor in C that takes over before the Go
// runtime starts. It needs cgo and glibc. PCP's libraries are needed to run,
// by the DSO, but not to build.
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

	"github.com/gopcp/pmcd/agents/launch/child"
)

// A DSO is an agent as a line of pmcd.conf has it.
type DSO struct {
	Name   string
	Domain int
	Entry  string // name of the function that sets up the agent
	Path   string
	// User is who the host becomes when the DSO has been initialised, for good;
	// "" is who starts it. That takes the rights of root.
	User string
}

// Check reports why a file is not a shared object; fs.ErrNotExist is among the
// reasons. What only the dynamic linker can tell is left to it.
func Check(path string) error {
	fi, err := os.Stat(path) // opening it may wait, if it is a FIFO
	if err != nil {
		return fmt.Errorf("cannot find the DSO: %w", err)
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("%s is not a shared object but %s", path, kindOf(fi.Mode()))
	}
	f, err := elf.Open(path)
	switch {
	case errors.As(err, new(*elf.FormatError)):
		return fmt.Errorf("%s is not a shared object: not an ELF file", path)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s is not a shared object: not an ELF file, or not all of one", path)
	case err != nil:
		return fmt.Errorf("cannot read the DSO: %w", err)
	}
	defer f.Close()
	if f.Type != elf.ET_DYN {
		return fmt.Errorf("%s is not a shared object: its ELF type is %v", path, f.Type)
	}
	if m := machine(); m != elf.EM_NONE && f.Machine != m { // the linker says that there is no such file
		return fmt.Errorf("%s is not a shared object for this machine: it is for %v", path, f.Machine)
	}
	// The dynamic linker maps what is not there, and dies of it.
	for _, p := range f.Progs {
		if end := p.Off + p.Filesz; p.Type == elf.PT_LOAD && (end < p.Off || end > uint64(fi.Size())) {
			return fmt.Errorf("%s is not all of a shared object: it has %d bytes, but refers to more", path, fi.Size())
		}
	}
	return nil
}

// machine is what this program runs on, if that can be told.
var machine = sync.OnceValue(func() elf.Machine {
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		return elf.EM_NONE
	}
	defer f.Close()
	return f.Machine
})

func kindOf(m os.FileMode) string {
	if m.IsDir() {
		return "a directory"
	}
	return "a special file"
}

// Start runs a host for d. Its errors and all that the DSO prints go to
// stderr. [Ready] comes next.
func Start(d DSO, stderr *os.File) (*child.Process, error) {
	spec, err := Spec(d, stderr)
	if err != nil {
		return nil, err
	}
	return child.Start(spec)
}

// Spec says how Start runs a host.
func Spec(d DSO, stderr *os.File) (child.Spec, error) {
	if !supported {
		return child.Spec{}, errors.New("this pmcd was built without cgo or glibc and cannot run DSOs")
	}
	// Scripts take a process for pmcd if its name ends in /pmcd.
	argv := []string{"pmcd-dso: " + strings.ReplaceAll(d.Name, "/", "_"), strconv.Itoa(d.Domain), d.Entry, d.Path}
	if d.User != "" {
		argv = append(argv, d.User)
	}
	return child.Spec{
		// Not os.Executable: after an update there is another program, or none.
		Path:   "/proc/self/exe",
		Argv:   argv,
		Pipes:  true,
		Stderr: stderr,
	}, nil
}

// maxLine is more than a host writes before the first PDU, in bytes.
const maxLine = 1024

// Ready waits, until ctx ends, for the host at the other end of conn to have
// loaded the DSO and called its entry function. It reports the version of the
// interface that the agent has (PMDA_INTERFACE_7 is 7), or why there is none.
// The handshake of the PDU protocol comes next.
func Ready(ctx context.Context, conn *child.Pipes) (iface int, err error) {
	if conn == nil {
		return 0, errors.New("the DSO host has no pipes")
	}
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	line, err := readLine(conn)
	if !stop() {
		return 0, fmt.Errorf("the DSO is not initialised in time: %w", context.Cause(ctx))
	}
	if err != nil {
		return 0, fmt.Errorf("the DSO ended the host while it was loaded or initialised: %w", err)
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
	return 0, fmt.Errorf("the host says %q", line)
}

// readLine reads no more than the line: PDUs follow.
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
