package mmvformat

import (
	"path/filepath"

	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
)

// The directories below PCP_TMP_DIR of the two agents that read MMV files.
const (
	DirMMV     = "mmv"
	DirPmproxy = "pmproxy"
)

// Dir returns the directory below PCP_TMP_DIR in which an agent reads files and programs
// write them; name is DirMMV or DirPmproxy. PCP_TMP_DIR is read from the environment, or
// from pcp.conf(5). On a host without pcp.conf it is PCP's default, /var/lib/pcp/tmp.
func Dir(name string) (string, error) {
	dir, err := pcpconf.Dir("PCP_TMP_DIR")
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, name), nil
}
