// Package pcpconf reads pcp.conf(5), which has the directories of PCP and other
// settings as variables of the environment.
//
// Package pcpconf serves the programs of this module, and may change in any release.
package pcpconf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// Version is the version of PCP whose behaviour pmcd implements: the value of pmcd.version and,
// without a pcp.conf, of PCP_VERSION.
const Version = "7.2.1"

// maxFile is the largest pcp.conf in bytes. It bounds time and memory.
const maxFile = 1 << 20

// A Setting is one variable of pcp.conf(5).
type Setting struct{ Name, Value string }

// Load reads pcp.conf and returns the variables that are not yet in the
// environment, in the order of the file. The function lookup looks up a variable
// of the environment (os.LookupEnv). A variable that is set there is left out,
// even if its value is empty. If the file sets a variable twice, the first value
// counts. Agents rely on all variables of pcp.conf in their environment.
//
// The file is $PCP_CONF, else $PCP_DIR/etc/pcp.conf, else /etc/pcp.conf or, if
// that cannot be read, /usr/local/etc/pcp.conf. If there is none, the error is
// fs.ErrNotExist; pmcd continues without it. Only a regular file is read, so that
// Load does not block.
func Load(lookup func(string) (string, bool)) ([]Setting, error) {
	paths := []string{"/etc/pcp.conf", "/usr/local/etc/pcp.conf"}
	if path, ok := lookup("PCP_CONF"); ok {
		paths = []string{path}
	} else if dir, ok := lookup("PCP_DIR"); ok {
		paths = []string{filepath.Join(dir, "etc", "pcp.conf")}
	}
	var first error
	for _, path := range paths {
		text, err := regular.ReadFile(path, maxFile)
		if err == nil {
			return parse(string(text), lookup), nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// CheckNamed returns why the file that PCP_CONF or PCP_DIR names cannot be read. It returns
// nil if neither is set: then PCP need not be installed.
func CheckNamed(lookup func(string) (string, bool)) error {
	for _, name := range []string{"PCP_CONF", "PCP_DIR"} {
		if _, ok := lookup(name); !ok {
			continue
		}
		if _, err := Load(lookup); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	return nil
}

// Exists reports whether there is a pcp.conf that Load would read, or fail to read.
func Exists(lookup func(string) (string, bool)) bool {
	_, err := Load(lookup)
	return !errors.Is(err, os.ErrNotExist)
}

// SetEnv adds the variables of pcp.conf to the environment of this process, as
// libpcp does in every program. A missing pcp.conf is not an error.
func SetEnv() error {
	vars, err := Load(os.LookupEnv)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, v := range vars {
		if err := os.Setenv(v.Name, v.Value); err != nil {
			return fmt.Errorf("%s in pcp.conf: %w", v.Name, err)
		}
	}
	return nil
}

// standard has PCP's defaults of the directories that agents use.
var standard = map[string]string{
	"PCP_PMDAS_DIR":   "/var/lib/pcp/pmdas",
	"PCP_SYSCONF_DIR": "/etc/pcp",
	"PCP_TMP_DIR":     "/var/lib/pcp/tmp",
	"PCP_VAR_DIR":     "/var/lib/pcp",
}

// Dir returns the directory that a variable of the environment or of pcp.conf names. pmcd
// sets these variables in the environment of agents. On a host without pcp.conf Dir returns
// PCP's default. If there is an error, Dir returns the default, too.
func Dir(variable string) (string, error) {
	if dir := os.Getenv(variable); dir != "" {
		return dir, nil
	}
	conf, err := Load(os.LookupEnv)
	for _, v := range conf {
		if v.Name == variable && v.Value != "" {
			return v.Value, nil
		}
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return standard[variable], nil
	case err == nil:
		err = errors.New("not in pcp.conf")
	}
	return standard[variable], fmt.Errorf("%s is not set: %w", variable, err)
}

// parse reads NAME=VALUE lines. Blanks are part of names and values. A pair of
// quotes around the whole value is removed. There is no other syntax.
func parse(text string, lookup func(string) (string, bool)) (list []Setting) {
	seen := make(map[string]bool)
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		name, value, ok := strings.Cut(line, "=")
		if !ok || name == "" || name[0] == '#' || seen[name] || strings.IndexByte(line, 0) >= 0 {
			continue
		}
		seen[name] = true
		if _, ok := lookup(name); ok {
			continue
		}
		if n := len(value); n > 0 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1:max(1, n-1)]
		}
		list = append(list, Setting{name, value})
	}
	return list
}
