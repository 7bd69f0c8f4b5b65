package verify

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/open"
	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/launch/dsohost"
	"github.com/gopcp/pmcd/internal/launch/goplugin"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// agent returns why an agent cannot be started, or reached, as far as files can
// tell. Nothing is run or loaded.
func (v *verifier) agent(a *pmcdconf.Agent) (errs []error) {
	if a.Kind == pmcdconf.DSO {
		errs = append(errs, v.dso(a))
	} else if a.Kind == pmcdconf.Pipe && v.builtin.Has(a) {
		v.replaced(a, "built in", open.File(a))
		errs = append(errs, v.builtin.CheckOptions(a))
	} else if argv, missing := child.Substitute(a.Argv); missing != "" {
		v.replaced(a, argv[0], missing)
	} else if len(a.Argv) > 0 {
		errs = append(errs, checkProgram(a.Argv[0]))
	}
	if a.Kind == pmcdconf.Socket {
		errs = append(errs, checkAddress(a))
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// replaced notes what runs in place of a file that does not exist.
func (v *verifier) replaced(a *pmcdconf.Agent, by, missing string) {
	if v.notes {
		v.say("Note", a.Pos, fmt.Errorf("agent %q is %s: %s does not exist", a.Name, by, missing))
	}
}

// checkAddress reports why no process can listen where a socket agent should.
func checkAddress(a *pmcdconf.Agent) error {
	const maxPath = 107 // bytes; sockaddr_un.sun_path without its NUL
	switch {
	case a.Family != access.Unix && (a.Port == 0 || a.Port > 65535):
		return fmt.Errorf("there is no port %s", a.Address)
	case a.Family == access.Unix && len(a.Address) > maxPath:
		return fmt.Errorf("the name of the socket has %d bytes, and can have %d", len(a.Address), maxPath)
	case a.Family == access.Unix:
		if _, err := os.Stat(filepath.Dir(a.Address)); err != nil {
			return fmt.Errorf("no directory for the socket: %w", err)
		}
	}
	return nil
}

// checkProgram reports why a command cannot be run. Name is looked for in PATH
// as the kernel and child.Start do it.
func checkProgram(name string) error {
	path, err := exec.LookPath(name)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("there is no %s in PATH (%s)", name, os.Getenv("PATH"))
	case err != nil:
		return fmt.Errorf("cannot run %s: %s", name, cause(err))
	}
	f, err := regular.Open(path)
	if err != nil {
		return nil // what may be run need not be readable
	}
	defer f.Close()
	first, _ := bufio.NewReader(f).Peek(256) // the kernel looks at no more
	if bytes.HasPrefix(first, []byte(elf.ELFMAG)) {
		return nil
	}
	words := child.Interpreter(first)
	if filepath.Base(words[0]) == "env" && len(words) == 2 {
		words = words[1:]
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return fmt.Errorf("cannot run %s: its interpreter is %s: %s", name, words[0], cause(err))
	}
	return nil
}

// cause returns an error without the operation and the file.
func cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	if look, ok := errors.AsType[*exec.Error](err); ok {
		return look.Err
	}
	return err
}

// dso checks the file of a dso line, and that it has the entry.
func (v *verifier) dso(a *pmcdconf.Agent) error {
	if a.Entry == pmcdconf.PMCDEntry {
		return nil // always built in
	}
	if _, ok := v.builtin[a.Entry]; a.Path == "" && !ok {
		return open.NotBuiltIn(a.Entry)
	}
	err := dsohost.Check(a.Path)
	if err != nil {
		if _, ok := v.builtin[a.Entry]; ok && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	want := []string{a.Entry}
	plugin := false
	switch err := goplugin.Check(a.Path); {
	case err == nil:
		plugin, want = true, goplugin.Symbols(a.Entry)
	case !errors.Is(err, goplugin.ErrNotPlugin):
		return err
	case v.noDSO != nil:
		return fmt.Errorf("%s: %w", a.Path, v.noDSO)
	}
	have, err := functions(a.Path, plugin)
	if err != nil {
		return fmt.Errorf("%s: no symbols: %w", a.Path, err)
	}
	for _, name := range want {
		if have[name] {
			return nil
		}
	}
	return fmt.Errorf("%s has no function %s", a.Path, strings.Join(want, " or "))
}

// functions returns the names of the functions that a shared object defines; of
// a Go plugin those of its package main, which is the one that has a main.
func functions(path string, plugin bool) (map[string]bool, error) {
	file, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	f, err := elf.NewFile(file)
	if err != nil {
		return nil, err
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	have := make(map[string]bool)
	for _, s := range symbols {
		if t := elf.ST_TYPE(s.Info); s.Section != elf.SHN_UNDEF && (t == elf.STT_FUNC || t == elf.STT_GNU_IFUNC) {
			have[s.Name] = true
		}
	}
	if !plugin {
		return have, nil
	}
	of := make(map[string]bool)
	for name := range have {
		i := strings.LastIndexByte(name, '.')
		if i > 0 && have[name[:i]+".main"] {
			of[name[i+1:]] = true
		}
	}
	return of, nil
}
