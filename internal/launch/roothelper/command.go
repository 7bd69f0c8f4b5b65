package roothelper

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// CheckConfig returns an [*Untrusted] if a user other than root can change the
// configuration file at path, and another error if it cannot be read. "" is the
// embedded configuration, which is trusted.
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

// CheckFile returns an [*Untrusted] if a user other than root can change a file,
// and another error if it does not exist.
func CheckFile(path string) error { return checkPath(path, toRead, 0) }

// SortPath moves the directories in which users other than root can create a
// program to the end of list, a value of PATH. They are returned as rest, too. So
// those users cannot put a program in the place of a program of root that a wrapper
// such as nice, or a script, looks up.
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

// CheckAgent returns an [*Untrusted] if a user other than root can change the
// command or the shared object of an agent that is not part of this program, and
// another error if it does not exist.
func CheckAgent(a *pmcdconf.Agent) error {
	_, err := checkProgram(a, 0)
	return err
}

// checkProgram returns the program of a. The error is an *Untrusted if a user other
// than root can change what its process executes: the shared object; or the
// program, its interpreter, and each argument that can be code. Files of uid are
// trusted like those of root, here and below.
func checkProgram(a *pmcdconf.Agent, uid uint32) (string, error) {
	if a.Kind == pmcdconf.DSO {
		return "", checkPath(a.Path, toRead, uid)
	}
	if len(a.Argv) == 0 {
		return "", nil // pmcd does not start it
	}
	argv, _ := child.Substitute(a.Argv)
	// LookPath would look up the whole path, also through a directory of another user,
	// which can be on a file system that does not answer.
	if u := new(Untrusted); strings.Contains(argv[0], "/") && errors.As(checkPath(argv[0], toRead, uid), &u) {
		return "", u
	}
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return "", err
	}
	if err := checkExecutable(program, uid); err != nil {
		return "", err
	}
	if err := checkWorkingDir(argv, uid); err != nil {
		return "", err
	}
	for i := 1; i < len(argv); i++ {
		if isLogArgument(argv, i) {
			continue
		}
		if err := checkArgument(0, argv[i], a.Address, uid); err != nil {
			return "", err
		}
	}
	return program, nil
}

// checkArgument checks each part of an argument that can be the path of code. The
// address that a socket agent listens at is not code. The argument was reached through depth
// scripts.
func checkArgument(depth int, arg, address string, uid uint32) error {
	list := codePaths(arg)
	for _, part := range shellWords(arg) {
		list = append(list, codePaths(part)...)
		// A wrapper such as nice executes it.
		if strings.Contains(part, "/") {
			continue
		}
		if path, err := exec.LookPath(part); err == nil {
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
		// If it is a script, a wrapper executes its interpreter.
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			if err := checkInterpreter(depth, path, uid); err != nil {
				return err
			}
		}
	}
	return nil
}

// shellWords returns the words of an argument that is a shell command or a list of
// directories. Any other argument is one word.
func shellWords(arg string) []string {
	return strings.FieldsFunc(arg, func(r rune) bool { return strings.ContainsRune(" \t\n;&|()<>{}`$\"':,", r) })
}

// maxDepth is how many scripts may be interpreters of each other. The kernel has
// the same limit.
const maxDepth = 4

// checkExecutable checks a program and, if it is a script, the interpreter that the
// kernel executes for it.
func checkExecutable(program string, uid uint32) error {
	if err := checkPath(program, toRead, uid); err != nil {
		return err
	}
	return checkInterpreter(0, program, uid)
}

// checkInterpreter checks the interpreter of a file unless the file is a program. The
// file was reached through depth scripts, and only root can change it.
func checkInterpreter(depth int, file string, uid uint32) error {
	if depth == maxDepth {
		return nil // the kernel does not execute it
	}
	words, err := interpreter(file)
	if err != nil || len(words) == 0 {
		return err
	}
	if err := checkPath(words[0], toRead, uid); err != nil {
		return err
	}
	if err := checkWorkingDir(words, uid); err != nil {
		return err
	}
	for _, arg := range words[1:] {
		if err := checkArgument(depth+1, arg, "", uid); err != nil {
			return err
		}
	}
	return checkInterpreter(depth+1, words[0], uid)
}

// interpreter returns the words of the first line of a script; of an executable file without "#!"
// those of the shell; or no words for a program or another file. A file that cannot be read is not
// trusted, since its interpreter is not known.
func interpreter(path string) ([]string, error) {
	f, err := regular.Open(path)
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
		return nil, err // not about the file: the start is tried again later
	case err != nil:
		return nil, lookupError(err, toRead)
	}
	defer f.Close()
	first, err := bufio.NewReader(f).Peek(256) // the kernel reads no more
	if err != nil && err != io.EOF {
		return nil, lookupError(err, toRead)
	}
	if !bytes.HasPrefix(first, []byte("#!")) {
		info, err := f.Stat()
		if err != nil || info.Mode()&0o111 == 0 || bytes.HasPrefix(first, []byte(elf.ELFMAG)) {
			return nil, err
		}
	}
	return child.Interpreter(first), nil
}

// codePaths returns the parts of an argument that can be the path of code: the
// argument, the text after its "=", and the text after an option of one letter. A
// part counts if it has a slash in it or if a file of that name exists in the
// working directory. An option or a NAME=VALUE as a whole counts only if such a
// file exists: others can create one in the working directory, but the command
// does not mean to execute it.
func codePaths(arg string) (list []string) {
	add := func(s string, always bool) {
		if s == "" || slices.Contains(list, s) {
			return
		}
		if !always {
			if _, err := os.Lstat(s); err != nil {
				return
			}
		}
		list = append(list, s)
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

// isName reports whether s is empty or can be the name of a variable.
func isName(s string) bool {
	return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// isLogArgument reports whether argument i of argv is or contains the log file of an
// agent, which is written and not executed: the argument of -l or --log.
//
// The -l of interpreters means something else, and a script may follow it.
func isLogArgument(argv []string, i int) bool {
	option := i // index of -l
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
		return false // it is the program
	}
	program := option - 1
	for program > 0 && strings.HasPrefix(argv[program], "-") {
		program--
	}
	return !isInterpreter(argv[program])
}
