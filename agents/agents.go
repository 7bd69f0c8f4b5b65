// Package agents defines the interfaces between pmcd and the author of an agent.
//
// An agent serves one performance metrics domain (PMDA(3)). Its author implements
// [Agent], and the optional interfaces for what else the agent supports. Package
// pmda makes an Agent from tables of metrics, so most authors do not implement these
// interfaces themselves. Package serve makes an Agent a program, and package
// transport is how pmcd reaches it.
//
// An agent logs with log/slog. In pmcd's process, slog.Default writes to pmcd's log; in a
// program, package serve provides the logger. With both, a message may name its
// attributes in braces: see package serve.
//
// Plugins are built against this package and package pdu. A plugin loads only if
// its copies of both, and of everything that they import, are exactly pmcd's. So
// this package imports only pdu and the standard library, and its tests are in
// package agents_test, so that no build of this package includes them.
package agents

import (
	"context"

	"github.com/gopcp/pmcd/pdu"
)

// An Agent serves the metrics of one domain.
//
// The methods of an Agent, and of the optional interfaces below, are called one at
// a time, so an Agent needs no locks for them. Each call may be on another
// goroutine. A method that calls runtime.LockOSThread must undo that before it
// returns.
//
// In pmcd's process, ctx ends when pmcd no longer waits for the reply. In a program, it ends
// with the program, so a method that waits for something has its own timeout. A method that
// may take long looks at ctx.Err() now and then, for example for every 64th instance, and
// returns it. While a method does not return, pmcd does
// not call the agent. The client gets the code that [pdu.ErrnoOf] finds in an error. A panic
// ends the agent, but not pmcd.
//
// An Agent that is an io.Closer is closed when pmcd stops it. No method is called
// after that. The following interfaces are optional, too. If an Agent lacks one,
// clients get
//
//	Instancer     PM_ERR_INDOM
//	InstNamer     no difference
//	InstSpeller   the instance whose name, or its first word, is in the request
//	Texter        PM_ERR_TEXT
//	Storer        PM_ERR_PERMISSION
//	Namer         PM_ERR_NAME for a name, PM_ERR_PMID for a PMID
//	Labeler       no labels, except those that pmcd adds
//	AttrSetter    no difference
//	ContextEnder  no difference
type Agent interface {
	// Desc returns the descriptor of a metric. The error is PM_ERR_PMID if there
	// is no such metric.
	Desc(ctx context.Context, o Origin, id pdu.PMID) (pdu.Desc, error)

	// Fetch appends to w one value set for each of r.PMIDs, in that order. A
	// metric without values has an empty value set or, by w.Fail, one with an
	// error code. Fetch returns an error only if it fails for all metrics. It must
	// not retain r, r.PMIDs or w.
	Fetch(ctx context.Context, r *FetchRequest, w *pdu.ResultWriter) error
}

// An Origin identifies the client, and the context of that client, whose request
// pmcd passes on.
type Origin struct {
	Client  int32 // pmcd's number for the client; reused after EndContext
	Context int32 // the client's number for the context; 0 if the PDU has none
}

// A FetchRequest is the argument of [Agent.Fetch]. It is a struct so that fields can
// be added without a change of all agents.
type FetchRequest struct {
	Origin Origin
	PMIDs  []pdu.PMID

	// Profile has the instances that the client requests (pmAddProfile(3)). It is
	// never nil, and is not changed: the same pointer means the same instances.
	Profile *pdu.Profile
}

type (
	// An Instancer is an Agent with instance domains.
	Instancer interface {
		// Instances returns all instances of an instance domain, in the order in
		// which clients get them. The error is PM_ERR_INDOM if there is no such
		// instance domain. For a request about one instance pmcd searches the
		// result, see InstNamer.
		Instances(ctx context.Context, o Origin, indom pdu.InDom) ([]pdu.Inst, error)
	}

	// An InstNamer is an Instancer that knows the name of one instance without those of
	// all others, which take longer.
	InstNamer interface {
		// InstName returns the name of an instance. The error is PM_ERR_INST if
		// there is no such instance.
		InstName(ctx context.Context, o Origin, indom pdu.InDom, inst int32) (string, error)
	}

	// An InstSpeller is an Instancer that accepts other spellings of names.
	InstSpeller interface {
		// SpellInst converts the name in a client's request to the name of an
		// instance or the first word of that, for example "1" to "000001".
		SpellInst(indom pdu.InDom, name string) string
	}

	// A Texter is an Agent with help texts: a short one of one line, and a full one.
	// An empty text counts as PM_ERR_TEXT.
	Texter interface {
		// Text returns a help text of a metric. The error is PM_ERR_TEXT if there
		// is none.
		Text(ctx context.Context, o Origin, id pdu.PMID, oneline bool) (string, error)
		// InDomText returns a help text of an instance domain. The error is
		// PM_ERR_TEXT if there is none.
		InDomText(ctx context.Context, o Origin, indom pdu.InDom, oneline bool) (string, error)
	}

	// A Storer is an Agent that accepts new values (pmStore(3)).
	Storer interface {
		// Store stores the values of r. It must not retain r.
		Store(ctx context.Context, o Origin, r *pdu.Result) error
	}

	// A Namer is an Agent with a dynamic part of the name space, whose root the
	// PMNS of the host marks with DOMAIN:*:*. Names are full names: "hotproc.nprocs".
	Namer interface {
		// PMID returns the metric with a name. The error is PM_ERR_NAME if there
		// is no such name; for a node that is not a leaf it is that or
		// PM_ERR_NONLEAF.
		PMID(ctx context.Context, o Origin, name string) (pdu.PMID, error)
		// Names returns all names of a metric. The error is PM_ERR_PMID if there
		// is no such metric.
		Names(ctx context.Context, o Origin, id pdu.PMID) ([]string, error)
		// Children returns the nodes directly below name: of each the last
		// component of its name. The error is PM_ERR_NAME if there is no such
		// name.
		Children(ctx context.Context, o Origin, name string) ([]pdu.Child, error)
		// Traverse returns the names of all metrics at or below name. The error is
		// PM_ERR_NAME if there are none.
		Traverse(ctx context.Context, o Origin, name string) ([]string, error)
	}

	// A Labeler is an Agent with labels of its own.
	Labeler interface {
		// Labels returns the label sets of one level. ident is a domain number,
		// PMID or InDom, as kind says. There is one set for each instance if kind
		// is pdu.LabelInstances, and otherwise at most one set. pmcd leaves out
		// the instances that the client has not requested.
		Labels(ctx context.Context, o Origin, kind pdu.LabelKind, ident uint32) ([]pdu.LabelSet, error)
	}

	// An AttrSetter is an Agent that gets attributes of clients, such as the user
	// id or the container.
	AttrSetter interface {
		// SetAttr sets one attribute of the client with a number, which is that of
		// [Origin].
		SetAttr(client int32, a pdu.Attr)
	}

	// A ContextEnder is an Agent that keeps data for each client.
	ContextEnder interface {
		// EndContext reports that a client has disconnected. After that its number
		// may be that of another client.
		EndContext(client int32)
	}
)
