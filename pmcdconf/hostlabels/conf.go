package hostlabels

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// Conf is the content of labels.conf(5).
type Conf struct {
	MachineIDHash string // how to show the machine id: "none" (the default) or "sha256"
}

// LoadConf reads dir/labels.conf up to the first section other than
// [global]. If the file does not exist, the error is fs.ErrNotExist and the Conf
// has the default. LoadConf calls warn, unless it is nil, with a *pmcdconf.Error
// for each line that it ignores.
//
// As libpcp does, it ignores text after a value, and a later "none" does not undo
// "sha256": a file with "sha256" in any line must not expose the machine id.
func LoadConf(dir string, warn func(error)) (Conf, error) {
	if warn == nil {
		warn = func(error) {}
	}
	conf := Conf{MachineIDHash: "none"}
	path := filepath.Join(dir, "labels.conf")
	text, err := regular.ReadFile(path, maxFile)
	if err != nil {
		return conf, err
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' || strings.HasPrefix(line, "[global]") {
			continue
		}
		if line[0] == '[' {
			break
		}
		const separators = " \t=:"
		i := strings.IndexAny(line, separators)
		if i < 0 {
			i = len(line)
		}
		key, value := line[:i], strings.TrimLeft(line[i:], separators)
		switch {
		case key == "machineid_hash" && strings.HasPrefix(value, "sha256"):
			conf.MachineIDHash = "sha256"
		case key == "machineid_hash" && strings.HasPrefix(value, "none"):
		default:
			warn(&pmcdconf.Error{Pos: pmcdconf.Pos{File: path, Line: number}, Warning: true, Err: fmt.Errorf("%q is ignored", line)})
		}
	}
	return conf, nil
}
