package child

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// inPlaceOf are PCP's agents in Python for which there are programs of ours with the same options.
var inPlaceOf = []string{"openmetrics"}

// Substitute returns the command that is run for argv, the words of a pipe line of pmcd.conf. If
// argv runs one of PCP's agents in Python, such as
//
//	/usr/bin/python3 /var/lib/pcp/pmdas/openmetrics/pmdaopenmetrics.python -d 144
//
// and the script or the interpreter does not exist, which missing names, that is our program with
// the options of argv. It is in the directory pmdas beside this program. Otherwise, and if our
// program does not exist either, it is argv, and missing is "".
func Substitute(argv []string) (command []string, missing string) {
	if len(argv) < 2 || !filepath.IsAbs(argv[1]) {
		return argv, ""
	}
	program, ok := strings.CutSuffix(filepath.Base(argv[1]), ".python")
	if !ok || !slices.Contains(inPlaceOf, strings.TrimPrefix(program, "pmda")) || !strings.HasPrefix(program, "pmda") {
		return argv, ""
	}
	if _, err := exec.LookPath(argv[0]); errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		missing = argv[0]
	} else if _, err := os.Stat(argv[1]); errors.Is(err, fs.ErrNotExist) {
		missing = argv[1]
	} else {
		return argv, ""
	}
	self, err := os.Executable()
	if err != nil {
		return argv, ""
	}
	path := filepath.Join(filepath.Dir(self), "pmdas", program)
	if _, err := os.Stat(path); err != nil {
		return argv, ""
	}
	return append([]string{path}, argv[2:]...), missing
}
