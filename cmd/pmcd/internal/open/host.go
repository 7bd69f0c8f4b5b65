package open

import (
	"context"
	"errors"
	"fmt"

	"github.com/gopcp/pmcd/agents/launch/dsohost"
	"github.com/gopcp/pmcd/agents/launch/goplugin"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A host is the process of a C shared object. It loads the object as soon as it is started.
type host struct {
	*agentProcess
	changed func() bool // reports that the file has changed since
}

// openHost starts a process for a shared object, and connects to its agent.
func (o *Opener) openHost(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
	h, err := o.startHost(ctx, spec)
	if err != nil {
		return nil, err
	}
	return o.connectHost(ctx, spec, h, opt)
}

func (o *Opener) startHost(ctx context.Context, spec *pmcdconf.Agent) (*host, error) {
	changed := changes(spec.Path)
	p, err := o.start(ctx, spec, "")
	if err != nil {
		return nil, err
	}
	return &host{p, changed}, nil
}

// connectHost has h initialise the agent of its shared object, and connects to the agent.
func (o *Opener) connectHost(ctx context.Context, spec *pmcdconf.Agent, h *host, opt wire.Options) (*transport.Conn, error) {
	iface, err := dsohost.Init(ctx, h.Pipes)
	if err != nil {
		return nil, h.failed(err)
	}
	l, err := o.connectPipes(ctx, h.agentProcess, opt)
	if err != nil {
		return nil, err
	}
	l.Interface = iface
	l.Changed = func() error {
		if !h.changed() {
			return nil
		}
		return fmt.Errorf("%s has changed since agent %q (dom %d) loaded it: to use it, kill -KILL %d and send pmcd SIGHUP again",
			spec.Path, spec.Name, spec.Domain, h.PID())
	}
	return l, nil
}

// Preload starts the host of a shared object. The host loads the object, and calls its entry
// function when Open is called with the same spec. For any other agent Preload does nothing: a
// PMDA connects to pmdaroot at its start, and an agent in this process has nothing to load. It
// is a daemon.PreloadFunc.
func (o *Opener) Preload(ctx context.Context, spec *pmcdconf.Agent) (discard func()) {
	if !needsHost(spec) {
		return func() {}
	}
	h, err := o.startHost(ctx, spec)
	if err != nil {
		return func() {}
	}
	o.preloaded.Store(spec, h)
	return func() {
		if h := o.takePreloaded(spec); h != nil {
			h.stopNow()
		}
	}
}

// takePreloaded returns the host that Preload has started for spec, which is then the
// caller's, or nil.
func (o *Opener) takePreloaded(spec *pmcdconf.Agent) *host {
	h, ok := o.preloaded.LoadAndDelete(spec)
	if !ok {
		return nil
	}
	return h.(*host)
}

// needsHost reports whether the agent of spec is a C shared object.
func needsHost(spec *pmcdconf.Agent) bool {
	return spec.Kind == pmcdconf.DSO && dsohost.Check(spec.Path) == nil &&
		errors.Is(goplugin.Check(spec.Path), goplugin.ErrNotPlugin)
}
