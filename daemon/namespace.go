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

// Load reads the name space. Warn is told of what is wrong with a file that can
// be used all the same. Commands in the file are run until ctx ends.
func (n Namespace) Load(ctx context.Context, warn func(*pmnsload.Error)) (*pmnsload.Tree, error) {
	ctx, cancel := context.WithTimeout(ctx, shellTime)
	defer cancel()
	return pmnsload.Load(n.Path, pmnsload.Options{
		Preprocess:  !n.Default,
		Unique:      n.Unique,
		IncludePath: n.Include,
		Shell:       pmnsload.Shell(ctx),
		Warn:        warn,
	})
}

// loadNames returns the name space. Warnings about its file are logged.
func (d *Daemon) loadNames() (*pmnsload.Tree, error) {
	if e := d.cfg.Embedded; e != nil {
		return e.Names, nil
	}
	return d.cfg.Namespace.Load(context.Background(), func(e *pmnsload.Error) { d.log.Warn(e.Error()) })
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
// loaded leaves the old one in use, and is an error.
func (d *Daemon) reloadNames() error {
	if d.cfg.Embedded != nil {
		return nil
	}
	ns := d.cfg.Namespace
	now := seen(ns.Path)
	if now == d.pmnsSeen && now.err == "" {
		d.log.Info(fmt.Sprintf("PMNS file %q is unchanged", ns))
		return nil
	}
	d.pmnsSeen = now
	d.log.Info(fmt.Sprintf("Reloading PMNS %q", ns))
	tree, err := d.loadNames()
	if err != nil {
		err = fmt.Errorf("pmLoadASCIINameSpace(%s): %w; the names that were loaded before stay in use", ns, err)
		d.log.Error(err.Error())
		return err
	}
	r := *d.routes.Load()
	r.tree = tree
	d.routes.Store(&r)
	return nil
}
