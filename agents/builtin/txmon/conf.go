package txmon

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// maxConf is the largest size of txmon.conf, in bytes.
const maxConf = 64 << 10

// loadTypes reads txmon.conf.
func loadTypes() ([]string, error) {
	dir, _ := pcpconf.Dir("PCP_PMDAS_DIR")
	path := filepath.Join(dir, "txmon", "txmon.conf")
	text, err := regular.ReadFile(path, maxConf)
	if err != nil {
		return nil, err
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
