// Package agents defines what pmcd asks of an agent, and nothing else.
//
// An agent serves one performance metrics domain (PMDA(3)). Its author implements
// [Agent] and those of the optional interfaces that it has something for. Package
// pmda builds an Agent from tables; package serve makes a program of one; package
// transport is how pmcd reaches it.
//
// Plugins are built against this package and package pdu, and a plugin loads
// only if its copies of both, and of everything they import, are exactly pmcd's.
// So this package imports only the standard library and pdu, and its tests are
// those of another package: a plugin must never have them.
package agents

import (
	"context"

	"github.com/gopcp/pmcd/pdu"
)

// An Agent serves the metrics of one domain.
//
// The methods of an Agent, and of the optional interfaces below, are called
// one at a time: an Agent needs no locks for them. ctx ends when nobody waits
// for the call any more; a method that runs on keeps the agent from being
// called until it returns. An error that wraps a [pdu.Errno] reaches the
// client as that code, any other as PM_ERR_GENERIC. A panic ends the agent,
// not pmcd.
//
// Each call may come on another goroutine. A method that has called
// runtime.LockOSThread must undo that before it returns.
//
// An Agent that is an io.Closer is closed when pmcd drops it; no method is
// called afterwards. The interfaces below are optional, too. Without one, the
// agent is answered for:
//
//	Instancer    PM_ERR_INDOM
//	InstSpeller  names are as clients write them
//	Texter       PM_ERR_TEXT
//	Storer       PM_ERR_PERMISSION
//	Namer        PM_ERR_NAME, for names of a PMID PM_ERR_PMID
//	Labeler      no labels
//	AttrSetter   nothing happens
//	ContextEnder nothing happens
type Agent interface {
	// Desc returns the descriptor of a metric; PM_ERR_PMID if there is no
	// such metric.
	Desc(ctx context.Context, o Origin, id pdu.PMID) (pdu.Desc, error)

	// Fetch appends to w one value set for each of r.PMIDs, in that order, in
	// wire form. A metric that has no values gets a set without values or, by
	// w.Fail, with an error; Fetch itself fails only if nothing can be said of
	// any of them. Both r and w are the caller's again when Fetch returns.
	Fetch(ctx context.Context, r *FetchRequest, w *pdu.ResultWriter) error
}

// An Origin names the client context on whose behalf pmcd calls.
type Origin struct {
	Client  int32 // pmcd's number for the client, used again after EndContext
	Context int32 // that client's number for the context; 0 where the PDU has none
}

// A FetchRequest is an argument of [Agent.Fetch]. It is a struct so that it
// can grow without breaking agents.
type FetchRequest struct {
	Origin  Origin
	PMIDs   []pdu.PMID
	Profile *pdu.Profile // never nil; unchanged as long as the pointer is
}

type (
	// An Instancer has instance domains.
	Instancer interface {
		// Instances returns all instances of an instance domain, in the order
		// clients are to see them; PM_ERR_INDOM if there is none such. Look-up
		// of one instance is done by the caller.
		Instances(ctx context.Context, o Origin, indom pdu.InDom) ([]pdu.Inst, error)
	}

	// An InstSpeller knows instances by other names than those of Instances: for
	// what a client wrote it returns the name, or the first word of it, to look for.
	InstSpeller interface {
		SpellInst(indom pdu.InDom, name string) string
	}

	// A Texter has help text, for metrics and for instance domains:
	// PM_ERR_TEXT if not for this one.
	Texter interface {
		Text(ctx context.Context, o Origin, id pdu.PMID, oneline bool) (string, error)
		InDomText(ctx context.Context, o Origin, indom pdu.InDom, oneline bool) (string, error)
	}

	// A Storer accepts new values.
	Storer interface {
		Store(ctx context.Context, o Origin, r *pdu.Result) error
	}

	// A Namer has a dynamic part of the name space, which pmcd's PMNS marks
	// with DOMAIN:*:*. Names are full names, dots included.
	Namer interface {
		// PMID returns the metric of a name; PM_ERR_NAME, PM_ERR_NONLEAF.
		PMID(ctx context.Context, o Origin, name string) (pdu.PMID, error)
		// Names returns all names of a metric; PM_ERR_PMID.
		Names(ctx context.Context, o Origin, id pdu.PMID) ([]string, error)
		// Children returns what is next below name: the last components.
		Children(ctx context.Context, o Origin, name string) ([]pdu.Child, error)
		// Traverse returns the names of all metrics at or below name.
		Traverse(ctx context.Context, o Origin, name string) ([]string, error)
	}

	// A Labeler has labels other than those pmcd adds by itself.
	Labeler interface {
		// Labels returns the sets for one level: a domain number, PMID or
		// InDom, as kind says. Only kind LabelInstances has more than one: a
		// set for each instance, of which those that the client does not want
		// are left out by the caller.
		Labels(ctx context.Context, o Origin, kind pdu.LabelKind, ident uint32) ([]pdu.LabelSet, error)
	}

	// An AttrSetter is told who the client behind an Origin is.
	AttrSetter interface {
		SetAttr(client int32, a pdu.Attr)
	}

	// A ContextEnder is told that a client has gone and that its number may
	// come to mean another one.
	ContextEnder interface {
		EndContext(client int32)
	}
)
