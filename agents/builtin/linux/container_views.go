package linux

import (
	"context"
	"errors"
	"io"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// A view is an agent for the host or for one container.
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

// viewAgent is the agent. It has the view of the host and, for clients that have
// chosen a container, views of containers. Requests that do not depend on the
// container go to the view of the host.
//
// A container has its own network, file systems and host name. Everything else in
// its view is the host's. Instance ids of a container begin with the ids that the
// host has saved.
type viewAgent struct {
	view // of the host
	host *host

	clients          map[int32]*client
	containerClients int                    // clients that have chosen a container
	containers       map[int]*containerView // by pid of the first process: a container has many names
}

// A client is a client of pmcd.
type client struct {
	container string
	pid       int        // of the container whose view it has used last; 0 is none
	user      []pdu.Attr // its user id
}

// A containerView is the view of a container.
type containerView struct {
	view
	container *container
}

func (h *host) agent() (agents.Agent, error) {
	c := h.config()
	c.Help = help
	v, err := newView(c)
	if err != nil {
		return nil, err
	}
	return &viewAgent{view: v, host: h, clients: make(map[int32]*client), containers: make(map[int]*containerView)}, nil
}

func newView(c pmda.Config) (view, error) {
	a, err := pmda.New(c)
	if err != nil {
		return nil, err
	}
	v, ok := a.(view)
	if !ok {
		return nil, errors.New("linux: the agent of package pmda lacks methods of a view")
	}
	return v, nil
}

// viewOf returns the view for a request of a client.
func (v *viewAgent) viewOf(o agents.Origin) (view, error) {
	if v.containerClients == 0 {
		return v.view, nil
	}
	c := v.clients[o.Client]
	if c == nil || c.container == "" {
		return v.view, nil
	}
	pid, err := v.host.rootClient.ProcessID(c.container)
	if err != nil {
		return nil, err
	}
	if old := c.pid; old != pid { // the first request, or the container was restarted
		for _, other := range v.clients {
			if other.pid == old {
				other.pid = 0
			}
		}
		delete(v.containers, old)
	}
	w := v.containers[pid]
	if w == nil {
		if w, err = v.host.newContainerView(pid); err != nil {
			return nil, err
		}
		v.containers[pid] = w
	}
	c.pid = pid
	w.container.name = c.container // for this request
	for _, a := range c.user {
		w.SetAttr(o.Client, a)
	}
	return w, nil
}

// newContainerView returns a new view of a container.
func (h *host) newContainerView(pid int) (*containerView, error) {
	inner := h.forContainer(h.newContainer(pid))
	w, err := newView(inner.config())
	if err != nil {
		return nil, err
	}
	return &containerView{view: w, container: inner.container}, nil
}

// leaveView removes the view that a client has used, unless others use it.
func (v *viewAgent) leaveView(c *client) {
	pid := c.pid
	c.pid = 0
	for _, other := range v.clients {
		if other.pid == pid {
			return
		}
	}
	delete(v.containers, pid)
}

// setContainer sets the container that a client has chosen; "" is the host.
func (v *viewAgent) setContainer(c *client, name string) {
	old := c.container
	if old == name {
		return
	}
	c.container = name
	if old == "" {
		v.containerClients++
		return
	}
	if name == "" {
		v.containerClients--
	}
	v.leaveView(c)
}

// SetAttr implements agents.AttrSetter.
func (v *viewAgent) SetAttr(number int32, a pdu.Attr) {
	v.view.SetAttr(number, a)
	c := v.clients[number]
	if c == nil {
		c = new(client)
		v.clients[number] = c
	}
	switch a.Code {
	case pdu.AttrContainer:
		v.setContainer(c, string(a.Value))
	case pdu.AttrUserID:
		c.user = []pdu.Attr{{Code: a.Code, Value: append([]byte(nil), a.Value...)}}
	}
}

// EndContext implements agents.ContextEnder.
func (v *viewAgent) EndContext(number int32) {
	v.view.EndContext(number)
	if c := v.clients[number]; c != nil {
		delete(v.clients, number)
		v.setContainer(c, "")
	}
	for _, w := range v.containers {
		w.EndContext(number)
	}
}

// Fetch implements agents.Agent.
func (v *viewAgent) Fetch(ctx context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	target, err := v.viewOf(r.Origin)
	if err != nil {
		return err
	}
	return target.Fetch(ctx, r, w)
}

// Instances implements agents.Instancer.
func (v *viewAgent) Instances(ctx context.Context, o agents.Origin, indom pdu.InDom) ([]pdu.Inst, error) {
	target, err := v.viewOf(o)
	if err != nil {
		return nil, err
	}
	return target.Instances(ctx, o, indom)
}

// Labels implements agents.Labeler.
func (v *viewAgent) Labels(ctx context.Context, o agents.Origin, kind pdu.LabelKind, ident uint32) ([]pdu.LabelSet, error) {
	if kind != pdu.LabelInstances {
		return v.view.Labels(ctx, o, kind, ident)
	}
	target, err := v.viewOf(o)
	if err != nil {
		return nil, err
	}
	return target.Labels(ctx, o, kind, ident)
}
