package txmon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxConf is the largest size of txmon.conf, in bytes.
const maxConf = 64 << 10

// loadTypes reads txmon.conf.
func loadTypes() ([]string, error) {
	dir := os.Getenv("PCP_PMDAS_DIR") // pmcd sets it for agents
	if dir == "" {
		dir = "/var/lib/pcp/pmdas"
	}
	path := filepath.Join(dir, "txmon", "txmon.conf")
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // without O_NONBLOCK the open of a FIFO blocks
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", path))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxConf+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxConf {
		return nil, fmt.Errorf("%s is over %d bytes", path, maxConf)
	}
	types := parseTypes(string(text))
	if len(types) == 0 {
		return nil, fmt.Errorf("no transaction types specified in %s", path)
	}
	return types, nil
}

// parseTypes returns the names in the text of txmon.conf.
func parseTypes(text string) (types []string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			types = append(types, strings.Fields(line)...)
		}
	}
	return types
}
