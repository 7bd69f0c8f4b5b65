package child

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// InPython returns the name of the agent without its suffix, such as pmdaopenmetrics, if argv, the
// words of a pipe line of pmcd.conf, runs one of PCP's agents in Python, such as
//
//	/usr/bin/python3 /var/lib/pcp/pmdas/openmetrics/pmdaopenmetrics.python -d 144
//
// missing is the interpreter or the script that does not exist.
func InPython(argv []string) (name, missing string, ok bool) {
	if len(argv) < 2 || !filepath.IsAbs(argv[1]) {
		return "", "", false
	}
	name, ok = strings.CutSuffix(filepath.Base(argv[1]), ".python")
	if !ok || !strings.HasPrefix(name, "pmda") {
		return "", "", false
	}
	if _, err := exec.LookPath(argv[0]); errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		missing = argv[0]
	} else if _, err := os.Stat(argv[1]); errors.Is(err, fs.ErrNotExist) {
		missing = argv[1]
	}
	return name, missing, true
}

// Substitute returns the command that is run for argv, the words of a pipe line of pmcd.conf. If
// argv runs one of PCP's agents in Python, and the script or the interpreter does not exist, which
// missing names, that is our program with the options of argv. Otherwise, and if our program does not
// exist either, it is argv, and missing is "". There is such a program for pmdaopenmetrics only: the
// others are built in.
func Substitute(argv []string) (command []string, missing string) {
	// Where this program has taken the place of PCP's pmcd, PCP's directory has a copy of it, without
	// programs of agents beside it.
	return substitute(argv, "/usr/libexec/pcp/pmdas", "/usr/local/libexec/pcp/pmdas")
}

// substitute is Substitute for an installation with programs of agents in dirs.
func substitute(argv []string, dirs ...string) (command []string, missing string) {
	program, missing, ok := InPython(argv)
	if !ok || missing == "" || program != "pmdaopenmetrics" {
		return argv, ""
	}
	self, err := os.Executable()
	if err != nil {
		return argv, ""
	}
	for _, dir := range append([]string{filepath.Join(filepath.Dir(self), "pmdas")}, dirs...) {
		path := filepath.Join(dir, program)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
			return append([]string{path}, argv[2:]...), missing
		}
	}
	return argv, ""
}
