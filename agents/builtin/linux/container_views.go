package linux

import (
	"context"
	"errors"
	"io"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// A view is an agent for the host, or for one container.
type view interface {
	agents.Agent
	agents.Instancer
	agents.InstSpeller
	agents.Texter
	agents.Storer
	agents.Namer
	agents.Labeler
	agents.AttrSetter
	agents.ContextEnder
	io.Closer
}

// views is the agent: the view of the host and, for clients that have chosen a
// container, the views of those. What does not depend on that is the host's.
//
// A container has its own network, file systems and host name; the rest of its
// view is as the host's. Ids of instances in it begin with those that the host
// has given.
type views struct {
	view // of the host
	host *host

	clients    map[int32]*client
	choosers   int // clients that have chosen a container
	containers map[string]*contained
}

// A client is what views know of one.
type client struct {
	container string
	user      []pdu.Attr // whose it is
}

// A contained is the view of a container.
type contained struct {
	view
	in *container
}

func (h *host) agent() (agents.Agent, error) {
	c := h.config()
	c.Help = help
	v, err := newView(c)
	if err != nil {
		return nil, err
	}
	return &views{view: v, host: h, clients: make(map[int32]*client), containers: make(map[string]*contained)}, nil
}

func newView(c pmda.Config) (view, error) {
	a, err := pmda.New(c)
	if err != nil {
		return nil, err
	}
	v, ok := a.(view)
	if !ok {
		return nil, errors.New("linux: not an agent that is told who its clients are")
	}
	return v, nil
}

// of returns the view that a client has.
func (v *views) of(o agents.Origin) (view, error) {
	if v.choosers == 0 {
		return v.view, nil
	}
	c := v.clients[o.Client]
	if c == nil || c.container == "" {
		return v.view, nil
	}
	pid, err := v.host.root.ProcessID(c.container)
	if err != nil {
		return nil, err
	}
	w := v.containers[c.container]
	if w != nil && w.in.pid != pid { // it was started again
		v.drop(c.container)
		w = nil
	}
	if w == nil {
		if w, err = v.host.contain(c.container, pid); err != nil {
			return nil, err
		}
		v.containers[c.container] = w
	}
	for _, a := range c.user {
		w.SetAttr(o.Client, a)
	}
	return w, nil
}

// contain makes the view of a container.
func (h *host) contain(name string, pid int) (*contained, error) {
	of := h.inside(h.newContainer(name, pid))
	w, err := newView(of.config())
	if err != nil {
		return nil, err
	}
	return &contained{view: w, in: of.in}, nil
}

// drop forgets the view of a container.
func (v *views) drop(name string) { delete(v.containers, name) }

// choose says which container a client wants to see; "" is the host.
func (v *views) choose(c *client, name string) {
	was := c.container
	if was == name {
		return
	}
	c.container = name
	if was == "" {
		v.choosers++
		return
	}
	if name == "" {
		v.choosers--
	}
	for _, other := range v.clients {
		if other.container == was {
			return
		}
	}
	v.drop(was)
}

// SetAttr implements agents.AttrSetter.
func (v *views) SetAttr(number int32, a pdu.Attr) {
	v.view.SetAttr(number, a)
	c := v.clients[number]
	if c == nil {
		c = new(client)
		v.clients[number] = c
	}
	switch a.Code {
	case pdu.AttrContainer:
		v.choose(c, string(a.Value))
	case pdu.AttrUserID:
		c.user = []pdu.Attr{{Code: a.Code, Value: append([]byte(nil), a.Value...)}}
	}
}

// EndContext implements agents.ContextEnder.
func (v *views) EndContext(number int32) {
	v.view.EndContext(number)
	if c := v.clients[number]; c != nil {
		delete(v.clients, number)
		v.choose(c, "")
	}
	for _, w := range v.containers {
		w.EndContext(number)
	}
}

// Fetch implements agents.Agent.
func (v *views) Fetch(ctx context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	of, err := v.of(r.Origin)
	if err != nil {
		return err
	}
	return of.Fetch(ctx, r, w)
}

// Instances implements agents.Instancer.
func (v *views) Instances(ctx context.Context, o agents.Origin, indom pdu.InDom) ([]pdu.Inst, error) {
	of, err := v.of(o)
	if err != nil {
		return nil, err
	}
	return of.Instances(ctx, o, indom)
}

// Labels implements agents.Labeler.
func (v *views) Labels(ctx context.Context, o agents.Origin, kind pdu.LabelKind, ident uint32) ([]pdu.LabelSet, error) {
	if kind != pdu.LabelInstances {
		return v.view.Labels(ctx, o, kind, ident)
	}
	of, err := v.of(o)
	if err != nil {
		return nil, err
	}
	return of.Labels(ctx, o, kind, ident)
}
