package roothelper

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gopcp/pmcd/pmcdconf"
)

// CheckConfig reports why the configuration file at path is not root's alone, as
// an [*Untrusted], or why it cannot be read. "" is what is compiled in, which is
// trusted.
func CheckConfig(path string) error { return checkConfig(path, 0) }

func checkConfig(path string, uid uint32) error {
	if path == "" {
		return nil
	}
	err := checkPath(path, toRead, uid)
	var u *Untrusted
	if errors.As(err, &u) {
		u.Config = true
	}
	return err
}

// CheckFile reports why a user other than root can change a file, or why there is
// none.
func CheckFile(path string) error { return checkPath(path, toRead, 0) }

// SortPath returns a list of directories for PATH with those at its end in which
// others than root can put a program, which rest are. So they cannot put one in
// the place of root's, for a wrapper such as nice, or for a script.
func SortPath(list string) (sorted string, rest []string) { return sortPath(list, 0) }

func sortPath(list string, uid uint32) (sorted string, rest []string) {
	var good []string
	for _, dir := range filepath.SplitList(list) {
		if !filepath.IsAbs(dir) || checkPath(dir, asArgument, uid) != nil {
			rest = append(rest, dir)
		} else {
			good = append(good, dir)
		}
	}
	return strings.Join(append(good, rest...), string(filepath.ListSeparator)), rest
}

// CheckAgent reports why the command or the shared object of an agent that is not
// part of this program is not root's alone, as an [*Untrusted], or why there is
// none.
func CheckAgent(a *pmcdconf.Agent) error {
	_, err := checkProgram(a, 0)
	return err
}

// checkProgram returns the program of a, or reports why a user other than root
// could change what its process executes: the shared object; or the program, its
// interpreter, and each argument that can be code.
func checkProgram(a *pmcdconf.Agent, uid uint32) (string, error) {
	if a.Kind == pmcdconf.DSO {
		return "", checkPath(a.Path, toRead, uid)
	}
	if len(a.Argv) == 0 {
		return "", nil // there is nothing to start
	}
	program, err := exec.LookPath(a.Argv[0])
	if err != nil {
		if _, err := os.Stat(a.Argv[0]); errors.Is(err, fs.ErrPermission) { // a file system may not serve root
			return "", &Untrusted{Path: a.Argv[0], by: notExamined, id: uint32(syscall.EACCES)}
		}
		return "", err
	}
	if err := checkExecutable(program, uid); err != nil {
		return "", err
	}
	for i := 1; i < len(a.Argv); i++ {
		if isLogArgument(a.Argv, i) {
			continue
		}
		if err := checkArgument(a.Argv[i], a.Address, uid); err != nil {
			return "", err
		}
	}
	return program, nil
}

// checkArgument checks what of an argument can be code. That is not the address
// that a socket agent listens at.
func checkArgument(arg, address string, uid uint32) error {
	return checkArgumentAt(0, arg, address, uid)
}

// checkArgumentAt is trustedArgument for what that many scripts lead to.
func checkArgumentAt(depth int, arg, address string, uid uint32) error {
	list := codePaths(arg)
	for _, part := range shellWords(arg) {
		list = append(list, codePaths(part)...)
		// A wrapper executes it.
		if path, err := exec.LookPath(part); err == nil && !strings.Contains(part, "/") {
			list = append(list, path)
		}
	}
	for _, path := range list {
		if path == address {
			continue
		}
		if err := checkPath(path, asArgument, uid); err != nil {
			return err
		}
		// A wrapper executes the interpreter of a script.
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			if err := checkInterpreter(depth, path, uid); err != nil {
				return err
			}
		}
	}
	return nil
}

// shellWords returns the words of an argument that is a shell command, or a list of
// directories; of another one that one.
func shellWords(arg string) []string {
	return strings.FieldsFunc(arg, func(r rune) bool { return strings.ContainsRune(" \t\n;&|()<>{}`$\"':,", r) })
}

// maxDepth is how many scripts may be each other's interpreters, as for the
// kernel.
const maxDepth = 4

// checkExecutable checks a program, and, if it is a script, the interpreter that
// the kernel executes for it.
func checkExecutable(program string, uid uint32) error {
	if err := checkPath(program, toRead, uid); err != nil {
		return err
	}
	return checkInterpreter(0, program, uid)
}

// checkInterpreter checks the interpreter of a file, if it is a script, which that
// many scripts have led to. Others than root cannot change the file.
func checkInterpreter(depth int, file string, uid uint32) error {
	if depth == maxDepth {
		return nil // the kernel executes no more
	}
	words, err := shebang(file)
	if err != nil || len(words) == 0 {
		return err
	}
	if err := checkPath(words[0], toRead, uid); err != nil {
		return err
	}
	for _, arg := range words[1:] {
		if err := checkArgumentAt(depth+1, arg, "", uid); err != nil {
			return err
		}
	}
	return checkInterpreter(depth+1, words[0], uid)
}

// shebang returns the words of the first line of a script. One that cannot be
// read is not trusted: what it would execute is not known.
func shebang(path string) ([]string, error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
		return nil, err // it says nothing about the file: the start is tried again
	case err != nil:
		return nil, lookupError(err, toRead)
	}
	defer f.Close()
	first, err := bufio.NewReader(f).Peek(256) // the kernel looks at no more
	if err != nil && err != io.EOF {
		return nil, lookupError(err, toRead)
	}
	line, ok := bytes.CutPrefix(first, []byte("#!"))
	if !ok {
		return nil, nil
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	return strings.Fields(string(line)), nil
}

// codePaths returns what of an argument can be the path of code, if there is a slash
// in it or a file of that name in the working directory: the argument, what is
// behind its "=", and what is behind an option of one letter. As a whole an option
// or a NAME=VALUE is a path only where there is such a file: others can make one
// in the working directory, but a command that would execute it does not have it
// in mind.
func codePaths(arg string) (list []string) {
	add := func(s string, also bool) {
		if s == "" || slices.Contains(list, s) {
			return
		}
		if _, err := os.Lstat(s); err == nil || also {
			list = append(list, s)
		}
	}
	split := func(s string, option bool) {
		name, value, ok := strings.Cut(s, "=")
		add(s, !option && strings.Contains(s, "/") && !(ok && isName(name)))
		if ok {
			add(value, strings.Contains(value, "/"))
		}
	}
	option := strings.HasPrefix(arg, "-")
	split(arg, option)
	if option && len(arg) > 2 && arg[1] != '-' {
		split(arg[2:], false)
	}
	return list
}

// isName reports whether s can be the name of a variable, or is empty.
func isName(s string) bool {
	return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// isLogArgument reports whether argument i of argv is, or has, the log of an agent, which
// is written and not executed: the argument of -l or --log.
//
// Interpreters have another -l, behind which there may be a script.
func isLogArgument(argv []string, i int) bool {
	option := i // where -l is
	switch arg := argv[i]; {
	case strings.HasPrefix(arg, "--log="), argv[i-1] == "--log":
		return true
	case len(arg) > 2 && strings.HasPrefix(arg, "-l"):
	case argv[i-1] == "-l":
		option--
	default:
		return false
	}
	if option == 0 {
		return false // the program has that name
	}
	program := option - 1
	for program > 0 && strings.HasPrefix(argv[program], "-") {
		program--
	}
	name := strings.TrimRight(filepath.Base(argv[program]), "0123456789.-")
	return !slices.Contains(interpreters, name)
}

// interpreters have an option -l that is not about a log.
var interpreters = strings.Fields("sh ash bash dash ksh mksh zsh csh tcsh fish busybox perl ruby lua luajit guile emacs awk gawk php")
