package mmvformat

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	const variable = "PCP_TMP_DIR"
	if dir := os.Getenv(variable); dir != "" {
		return filepath.Join(dir, name), nil
	}
	conf, err := pcpconf.Load(os.LookupEnv)
	for _, v := range conf {
		if v.Name == variable && v.Value != "" {
			return filepath.Join(v.Value, name), nil
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return filepath.Join("/var/lib/pcp/tmp", name), nil
	case err == nil:
		err = errors.New("not in pcp.conf")
	}
	return "", fmt.Errorf("%s is not set: %w", variable, err)
}
