package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/daemon/internal/diag"
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

// failure is the line about a name space that cannot be loaded, with err for
// the reason. PCP's QA knows it.
func (n Namespace) failure(err error) error {
	dupok := 1
	if n.Unique {
		dupok = 0
	}
	return fmt.Errorf("pmLoadASCIINameSpace(%v, %d): %w", n, dupok, err)
}

// fileSeen is what tells one version of a file from another.
type fileSeen struct {
	size  int64
	mtime time.Time
	dir   bool
	err   string // of stat
}

func seen(path string) fileSeen {
	fi, err := os.Stat(path)
	if err != nil {
		return fileSeen{err: err.Error()}
	}
	return fileSeen{size: fi.Size(), mtime: fi.ModTime(), dir: fi.IsDir()}
}

func (s fileSeen) String() string {
	if s.err != "" {
		return s.err
	}
	return s.mtime.Format(time.RFC3339Nano)
}

// A namesRead is what came of reading the name space.
type namesRead struct {
	seen     fileSeen
	tree     *pmnsload.Tree // nil if it has not changed
	warnings []*pmnsload.Error
	err      error
}

// read reads the name space, unless its file is still as it was seen before.
func (n Namespace) read(ctx context.Context, before fileSeen) (r namesRead) {
	if r.seen = seen(n.Path); r.seen == before && r.seen.err == "" {
		return r
	}
	r.tree, r.err = n.Load(ctx, func(e *pmnsload.Error) { r.warnings = append(r.warnings, e) })
	return r
}

// Named returns when the name space is read for the first time, or why it
// cannot be.
func (d *Daemon) Named() error {
	if d.reading == nil {
		return nil
	}
	<-d.reading
	if d.names.err != nil {
		return d.cfg.Namespace.failure(d.names.err)
	}
	return nil
}

// takeNames puts the first name space in use. It does not wait for it when ctx
// ends.
func (d *Daemon) takeNames(ctx context.Context) error {
	if d.reading == nil {
		return nil
	}
	select {
	case <-d.reading:
	case <-ctx.Done():
		return nil
	}
	for _, w := range d.names.warnings {
		d.log.Warn(w.Error())
	}
	if err := d.Named(); err != nil {
		return err
	}
	d.debug.Printf(diag.DebugPMNS, "PMNS %q has %d names", d.cfg.Namespace, d.names.tree.Len())
	d.pmnsSeen = d.names.seen
	d.routes.Store(d.routes.Load().WithTree(d.names.tree))
	d.names = namesRead{} // a reload replaces the tree
	return nil
}

// stepBack returns what f returns, which computes with less right to a CPU than
// sessions: they would wait for a slice of its time otherwise. It is for a
// goroutine that ends then, and its thread with it, which could not get its right
// back. The main thread does not end, and is what the process is judged by.
func stepBack[T any](f func() T) T {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		defer runtime.UnlockOSThread()
		c := make(chan T)
		go func() { c <- stepBack(f) }() // on another thread
		return <-c
	}
	const nicer = 3 // nice(2)
	if p, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		unix.Setpriority(unix.PRIO_PROCESS, 0, 20-p+nicer) // the system call returns 20 less the value
	}
	return f()
}

// reloadNames takes a new name space if the file has changed. One that cannot
// be loaded leaves the old one in use, and is an error.
func (d *Daemon) reloadNames(ctx context.Context) error {
	if d.cfg.Embedded != nil {
		return nil
	}
	ns := d.cfg.Namespace
	before := d.pmnsSeen
	got, err := await(ctx, func() namesRead {
		return stepBack(func() namesRead { return ns.read(ctx, before) })
	})
	if err != nil {
		return err
	}
	if got.tree == nil && got.err == nil {
		d.log.Info(fmt.Sprintf("PMNS file %q is unchanged", ns))
		return nil
	}
	d.log.Info(fmt.Sprintf("Reloading PMNS %q", ns))
	for _, w := range got.warnings {
		d.log.Warn(w.Error())
	}
	if got.err != nil {
		var list pmnsload.ErrorList
		if errors.As(got.err, &list) {
			d.plain.Error(list.Detail())
		}
		err := fmt.Errorf("%w; the names that were loaded before stay in use", ns.failure(got.err))
		d.log.Error(err.Error())
		return err
	}
	d.debug.Printf(diag.DebugPMNS, "PMNS %q has %d names", ns, got.tree.Len())
	d.pmnsSeen = got.seen // not before: as long as it is not in use, each reload says so
	d.routes.Store(d.routes.Load().WithTree(got.tree))
	return nil
}
