package reload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/pmnsload"
)

// A Namespace says where the PMNS is.
type Namespace struct {
	Path string
	// Default means that Path is the name space of the system, which is not preprocessed.
	// Other files are (pmcd(1), -n).
	Default bool
	Unique  bool // a metric may have only one name (-N)

	Include []string // directories of included files, besides the usual ones
}

func (n Namespace) String() string {
	if n.Default {
		return "DEFAULT"
	}
	return n.Path
}

// step says what a read of the name space waits for.
func (n Namespace) step() string {
	return fmt.Sprintf("reads %s or runs a command of it (#shell)", n.Path)
}

// shellTime is how long a command in a name space file (#shell) may take.
const shellTime = time.Minute

// load reads the name space, and executes the commands in it. It calls warn with mistakes that
// do not make the file unusable. When ctx ends, commands in the file are killed.
func (n Namespace) load(ctx context.Context, warn func(*pmnsload.Error)) (*pmnsload.Tree, error) {
	ctx, cancel := context.WithTimeout(ctx, shellTime)
	defer cancel()
	opt := n.options()
	opt.Shell, opt.Warn = pmnsload.Shell(ctx), warn
	return pmnsload.Load(n.Path, opt)
}

// Load reads the name space and executes no command in it, because a caller that is root
// reads files that other users may be able to change. A command is an error,
// pmnsload.ErrShell; what follows it was not read.
func (n Namespace) Load() (*pmnsload.Tree, error) { return pmnsload.Load(n.Path, n.options()) }

func (n Namespace) options() pmnsload.Options {
	return pmnsload.Options{Preprocess: !n.Default, Unique: n.Unique, IncludePath: n.Include}
}

// failure returns the log line for a name space that cannot be loaded because of err.
// PCP's QA looks for it.
func (n Namespace) failure(err error) error {
	dupok := 1
	if n.Unique {
		dupok = 0
	}
	return fmt.Errorf("pmLoadASCIINameSpace(%v, %d): %w", n, dupok, err)
}

// A nameState has the version of the name space that is in use.
type nameState struct {
	version fileVersion
	loaded  bool // LoadNames has loaded one
}

// A namesRead is the result of reading the name space.
type namesRead struct {
	seen     fileVersion
	tree     *pmnsload.Tree // nil if it has not changed
	warnings []*pmnsload.Error
	err      error
}

// read reads the name space, unless the version of its file is before.
func (n Namespace) read(ctx context.Context, before fileVersion) (r namesRead) {
	if r.seen = versionOf(n.Path); r.seen == before && r.seen.err == "" {
		return r
	}
	r.tree, r.err = n.load(ctx, func(e *pmnsload.Error) { r.warnings = append(r.warnings, e) })
	return r
}

// LoadNames loads the name space for the first time. It does nothing if the name space is
// embedded or was loaded before. It returns an error if the name space cannot be loaded, or
// if ctx ends first.
func (r *Reloader) LoadNames(ctx context.Context) error {
	if r.cfg.Embedded != nil || r.names.loaded {
		return nil
	}
	ns := r.cfg.Namespace
	got, err := await(ctx, r, ns.step(), func() namesRead { return ns.read(ctx, fileVersion{}) })
	if err != nil {
		return err
	}
	r.warn(got)
	if got.err != nil {
		return asMistake(ns.failure(got.err))
	}
	r.takeNames(got)
	return nil
}

// warn logs the mistakes in a name space that do not make it unusable.
func (r *Reloader) warn(got namesRead) {
	for _, w := range got.warnings {
		r.cfg.Log.Warn("{error}; its output is used nevertheless", "error", w)
	}
}

// takeNames makes a name space that was read the current one.
func (r *Reloader) takeNames(got namesRead) {
	r.cfg.Debug.Log(diag.DebugPMNS, "PMNS {path:q} has {names} names", "path", r.cfg.Namespace, "names", got.tree.Len())
	r.names = nameState{version: got.seen, loaded: true}
	r.cfg.Routes.Store(r.cfg.Routes.Load().WithTree(got.tree))
}

// ReloadNames loads the name space if its file has changed. If it cannot be loaded, the old
// one stays in use, and ReloadNames returns an error.
func (r *Reloader) ReloadNames(ctx context.Context) error {
	defer r.end()
	return r.reloadNames(ctx)
}

func (r *Reloader) reloadNames(ctx context.Context) error {
	if r.cfg.Embedded != nil {
		return nil
	}
	ns := r.cfg.Namespace
	before := r.names.version
	got, err := await(ctx, r, ns.step(), func() namesRead {
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
	r.warn(got)
	if got.err != nil {
		var list pmnsload.ErrorList
		if errors.As(got.err, &list) {
			r.plain.Error("{error}", "error", logtext.Lines(list.Detail()), logtext.Event("pmns_mistake"))
		}
		err := fmt.Errorf("%w; the names that were loaded before stay in use", ns.failure(got.err))
		r.cfg.Log.Error("{error}", "error", err, logtext.Event("pmns_rejected"))
		return err
	}
	r.takeNames(got) // not before: each reload reports a file that cannot be loaded
	return nil
}
