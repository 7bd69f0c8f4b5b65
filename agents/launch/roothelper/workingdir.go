package roothelper

import (
	"path/filepath"
	"slices"
	"strings"
)

// checkWorkingDir returns an *Untrusted if a command takes code from the working directory
// and a user other than root can create files there.
func checkWorkingDir(argv []string, uid uint32) error {
	var words []string
	for _, arg := range argv {
		words = append(words, shellWords(arg)...)
	}
	if !usesWorkingDir(words) {
		return nil
	}
	return checkPath(".", asArgument, uid)
}

// usesWorkingDir reports whether one of the words is an interpreter that takes code from
// the working directory: Python with -m or -c, which imports modules from there, or any
// interpreter with a script whose name has no slash. The script need not exist: others may
// create it after the check.
func usesWorkingDir(words []string) bool {
	for i, word := range words {
		if isPython(word) && pythonUsesWorkingDir(words[i+1:]) || isInterpreter(word) && scriptInWorkingDir(word, words[i+1:]) {
			return true
		}
	}
	return false
}

// pythonUsesWorkingDir reports whether Python takes code from the working directory with
// these arguments. With -P and -I it does not.
func pythonUsesWorkingDir(args []string) bool {
	for i := 0; i < len(args); i++ {
		letters, option := strings.CutPrefix(args[i], "-")
		switch {
		case !option:
			return !strings.Contains(args[i], "/")
		case args[i] == "--check-hash-based-pycs":
			i++ // its value
			continue
		case strings.HasPrefix(letters, "-"):
			continue
		}
	cluster:
		for j, letter := range letters {
			switch letter {
			case 'm', 'c':
				return true
			case 'I', 'P':
				return false
			case 'W', 'X': // with a value
				if j == len(letters)-1 {
					i++
				}
				break cluster
			}
		}
	}
	return false
}

// scriptInWorkingDir reports whether the first argument of an interpreter that is no option
// can be a script in the working directory. After -c of a shell it is a command.
func scriptInWorkingDir(interpreter string, args []string) bool {
	shell := strings.HasSuffix(filepath.Base(interpreter), "sh")
	for _, arg := range args {
		letters, option := strings.CutPrefix(arg, "-")
		switch {
		case !option: // busybox sh: the script of sh is looked at by itself
			return !strings.Contains(arg, "/") && !isInterpreter(arg)
		case shell && !strings.HasPrefix(letters, "-") && strings.Contains(letters, "c"):
			return false
		}
	}
	return false
}

// isPython reports whether a word is Python, as in python3.12, or PCP's wrapper of it.
func isPython(word string) bool {
	for _, name := range []string{"python", "pypy", "pmpython", "platform-python"} {
		if version, ok := strings.CutPrefix(filepath.Base(word), name); ok && strings.Trim(version, "0123456789.-dbgt") == "" {
			return true
		}
	}
	return false
}

// isInterpreter reports whether a word is an interpreter other than Python.
func isInterpreter(word string) bool {
	return slices.Contains(interpreters, strings.TrimRight(filepath.Base(word), "0123456789.-"))
}

// interpreters are programs whose option -l does not name a log file.
var interpreters = strings.Fields("sh ash bash dash ksh mksh zsh csh tcsh fish busybox perl ruby lua luajit guile emacs awk gawk php")
