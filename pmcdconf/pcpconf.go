package pmcdconf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A Setting is one variable of pcp.conf(5).
type Setting struct{ Name, Value string }

// LoadPCPConf reads pcp.conf and returns the variables that are not yet in the
// environment, in the order of the file. The function lookup looks up a variable
// of the environment (os.LookupEnv). A variable that is set there is left out,
// even if its value is empty. If the file sets a variable twice, the first value
// counts. Agents rely on all variables of pcp.conf in their environment.
//
// The file is $PCP_CONF, else $PCP_DIR/etc/pcp.conf, else /etc/pcp.conf or, if
// that cannot be read, /usr/local/etc/pcp.conf. If there is none, the error is
// fs.ErrNotExist; pmcd continues without it.
func LoadPCPConf(lookup func(string) (string, bool)) ([]Setting, error) {
	paths := []string{"/etc/pcp.conf", "/usr/local/etc/pcp.conf"}
	if path, ok := lookup("PCP_CONF"); ok {
		paths = []string{path}
	} else if dir, ok := lookup("PCP_DIR"); ok {
		paths = []string{filepath.Join(dir, "etc", "pcp.conf")}
	}
	var first error
	for _, path := range paths {
		text, err := readFile(path, maxFile)
		if err == nil {
			return parsePCPConf(string(text), lookup), nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// SetPCPEnv adds the variables of pcp.conf to the environment of this process, as
// libpcp does in every program. A missing pcp.conf is not an error.
func SetPCPEnv() error {
	vars, err := LoadPCPConf(os.LookupEnv)
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

// parsePCPConf reads NAME=VALUE lines. Blanks are part of names and values. A pair of
// quotes around the whole value is removed. There is no other syntax.
func parsePCPConf(text string, lookup func(string) (string, bool)) (list []Setting) {
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

var errTooLong = errors.New("file too long")

// readFile returns the content of a regular file of at most limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = &os.PathError{Op: "read", Path: path, Err: errTooLong}
	}
	return b, err
}

var errNotRegular = errors.New("not a regular file")

// openRegular opens a regular file. O_NONBLOCK is for a FIFO, whose open would wait.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
