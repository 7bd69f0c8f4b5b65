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
	for i, word := range words {
		if isInterpreter(word) && usesWorkingDir(word, words[i+1:]) {
			return checkPath(".", asArgument, uid)
		}
	}
	return nil
}

// usesWorkingDir reports whether an interpreter takes code from the working directory: it has
// a script whose name has no slash, or it is Python with -m or -c, which imports modules from
// there. The script need not exist, since it can be created after the check. The value of an
// option before it is taken for it.
func usesWorkingDir(interpreter string, args []string) bool {
	python, shell := strings.Contains(filepath.Base(interpreter), "py"), strings.HasSuffix(interpreter, "sh")
	for _, arg := range args {
		letters, option := strings.CutPrefix(arg, "-")
		switch {
		case !option: // "busybox sh": the script of sh is looked at by itself
			return !strings.Contains(arg, "/") && !isInterpreter(arg)
		case strings.HasPrefix(letters, "-"):
		case python && strings.ContainsAny(letters, "mc"):
			return true
		case shell && strings.Contains(letters, "c"): // a command
			return false
		}
	}
	return false
}

// isInterpreter reports whether a word is an interpreter, such as python3.12.
func isInterpreter(word string) bool {
	return slices.Contains(interpreters, strings.TrimRight(filepath.Base(word), "0123456789.-"))
}

// interpreters are programs whose option -l does not name a log file. pmpython is PCP's.
var interpreters = strings.Fields("sh ash bash dash ksh mksh zsh csh tcsh fish busybox perl ruby lua luajit guile emacs awk gawk php python pypy pmpython platform-python")
