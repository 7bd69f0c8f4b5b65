package reload

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// nameState is the version of the name space that was read.
type nameState struct {
	version fileVersion     // the one in force
	reading <-chan struct{} // closed when first is set; nil if the names are embedded
	first   namesRead
}

// A namesRead is the result of reading the name space.
type namesRead struct {
	seen     fileVersion
	tree     *pmnsload.Tree // nil if it has not changed
	warnings []*pmnsload.Error
	err      error
}

// read reads the name space, unless its file is still as it was seen before.
func (n Namespace) read(ctx context.Context, before fileVersion) (r namesRead) {
	if r.seen = versionOf(n.Path); r.seen == before && r.seen.err == "" {
		return r
	}
	r.tree, r.err = n.Load(ctx, func(e *pmnsload.Error) { r.warnings = append(r.warnings, e) })
	return r
}

// Named returns when the name space is read for the first time, or why it
// cannot be.
func (r *Reloader) Named() error {
	if r.names.reading == nil {
		return nil
	}
	<-r.names.reading
	if r.names.first.err != nil {
		return r.cfg.Namespace.failure(r.names.first.err)
	}
	return nil
}

// TakeNames puts the first name space in use. It does not wait for it when ctx
// ends.
func (r *Reloader) TakeNames(ctx context.Context) error {
	if r.names.reading == nil {
		return nil
	}
	select {
	case <-r.names.reading:
	case <-ctx.Done():
		return nil
	}
	for _, w := range r.names.first.warnings {
		r.cfg.Log.Warn("{error}", "error", w)
	}
	if err := r.Named(); err != nil {
		return err
	}
	r.cfg.Debug.Log(diag.DebugPMNS, "PMNS {path:q} has {names} names", "path", r.cfg.Namespace, "names", r.names.first.tree.Len())
	r.names.version = r.names.first.seen
	r.cfg.Routes.Store(r.cfg.Routes.Load().WithTree(r.names.first.tree))
	r.names.first.tree, r.names.first.warnings = nil, nil // a reload replaces the tree; Named may read the error
	return nil
}

// ReloadNames takes a new name space if the file has changed. One that cannot
// be loaded leaves the old one in use, and is an error.
func (r *Reloader) ReloadNames(ctx context.Context) error {
	if r.cfg.Embedded != nil {
		return nil
	}
	ns := r.cfg.Namespace
	before := r.names.version
	got, err := await(ctx, func() namesRead {
		return runNiced(func() namesRead { return ns.read(ctx, before) })
	})
	if err != nil {
		return err
	}
	if got.tree == nil && got.err == nil {
		r.cfg.Log.Info("PMNS file {path:q} is unchanged", "path", ns)
		return nil
	}
	r.cfg.Log.Info("Reloading PMNS {path:q}", "path", ns)
	for _, w := range got.warnings {
		r.cfg.Log.Warn("{error}", "error", w)
	}
	if got.err != nil {
		var list pmnsload.ErrorList
		if errors.As(got.err, &list) {
			r.plain.Error("{error}", "error", list.Detail())
		}
		err := fmt.Errorf("%w; the names that were loaded before stay in use", ns.failure(got.err))
		r.cfg.Log.Error("{error}", "error", err)
		return err
	}
	r.cfg.Debug.Log(diag.DebugPMNS, "PMNS {path:q} has {names} names", "path", ns, "names", got.tree.Len())
	r.names.version = got.seen // only now: as long as the file is not in use, each reload says so
	r.cfg.Routes.Store(r.cfg.Routes.Load().WithTree(got.tree))
	return nil
}
