package daemon

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/gopcp/pmcd/pmnsload"
)

// A Namespace says where the PMNS is.
type Namespace struct {
	Path string
	// Default marks the system's own file, which is read as it is; others go
	// through the preprocessor (pmcd(1), -n).
	Default bool
	Unique  bool // a metric may have one name only (-N)

	Include []string // where included files are looked for, besides the usual places
}

func (n Namespace) String() string {
	if n.Default {
		return "DEFAULT"
	}
	return n.Path
}

// shellTime is how long a command in a name space file (#shell) may take.
const shellTime = time.Minute

// loadNames returns the name space. Warnings about its file are logged.
func (d *Daemon) loadNames() (*pmnsload.Tree, error) {
	if e := d.cfg.Embedded; e != nil {
		return e.Names, nil
	}
	n := d.cfg.Namespace
	ctx, cancel := context.WithTimeout(context.Background(), shellTime)
	defer cancel()
	return pmnsload.Load(n.Path, pmnsload.Options{
		Preprocess:  !n.Default,
		Unique:      n.Unique,
		IncludePath: n.Include,
		Shell:       pmnsload.Shell(ctx),
		Warn:        func(e *pmnsload.Error) { d.log.Warn(e.Error()) },
	})
}

// fileSeen is what tells one version of a file from another.
type fileSeen struct {
	size  int64
	mtime time.Time
	err   string // of stat
}

func seen(path string) fileSeen {
	fi, err := os.Stat(path)
	if err != nil {
		return fileSeen{err: err.Error()}
	}
	return fileSeen{size: fi.Size(), mtime: fi.ModTime()}
}

// reloadNames takes a new PMNS if the file has changed. One that cannot be
// loaded leaves the old one in use.
func (d *Daemon) reloadNames() {
	if d.cfg.Embedded != nil {
		return
	}
	ns := d.cfg.Namespace
	now := seen(ns.Path)
	if now == d.pmnsSeen && now.err == "" {
		d.log.Info(fmt.Sprintf("PMNS file %q is unchanged", ns))
		return
	}
	d.pmnsSeen = now
	d.log.Info(fmt.Sprintf("Reloading PMNS %q", ns))
	tree, err := d.loadNames()
	if err != nil {
		d.log.Error(fmt.Sprintf("pmLoadASCIINameSpace(%s): %v; the names that were loaded before stay in use", ns, err))
		return
	}
	r := *d.routes.Load()
	r.tree = tree
	d.routes.Store(&r)
}
