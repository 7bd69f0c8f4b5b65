package linux

import (
	"bytes"
	"os"
	"path/filepath"
	"time"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
)

// bandwidth reads the file $PCP_PMDAS_DIR/linux/bandwidth.conf, in which an admin
// can state the memory bandwidth of each NUMA node in MB/s:
//
//	# comment
//	Version:1.0
//	node0:1024
//
// C differs: it stops at a malformed line.
type bandwidth struct {
	path   string
	mtime  time.Time          // of the file that was read; zero if there is none
	byNode map[string]float64 // by name of the node
}

func newBandwidth() *bandwidth {
	dir, _ := pcpconf.Dir("PCP_PMDAS_DIR")
	return &bandwidth{path: filepath.Join(dir, "linux", "bandwidth.conf")}
}

// load reads the file if it has changed since the last read.
func (w *bandwidth) load() {
	st, err := os.Stat(w.path)
	if err != nil {
		w.mtime, w.byNode = time.Time{}, nil
		return
	}
	if st.ModTime().Equal(w.mtime) {
		return
	}
	w.mtime = st.ModTime()
	f := sysfile.NewFile(w.path)
	b, _ := f.Read()
	f.Close()
	w.parse(b)
}

func (w *bandwidth) parse(b []byte) {
	w.byNode = make(map[string]float64)
	version := false
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		name, value, ok := bytes.Cut(line, []byte{':'})
		name, value = bytes.TrimSpace(name), bytes.TrimSpace(value)
		if !ok || bytes.HasPrefix(line, []byte{'#'}) {
			continue
		}
		if string(name) == "Version" {
			version = string(value) == "1.0"
			continue
		}
		if f, isNum := sysfile.Float(value); version && isNum {
			w.byNode[string(name)] = f
		}
	}
}
