// A Go plugin with one metric, for the tests of goplugin.
package main

import (
	"context"
	"errors"
	"runtime"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

type agent struct{ id pdu.PMID }

func (a agent) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	if id != a.id {
		return pdu.Desc{}, pdu.ErrnoPMID
	}
	return pdu.Desc{PMID: id, InDom: pdu.NoInDom}, nil
}

func (a agent) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	for _, id := range r.PMIDs {
		if id != a.id {
			w.Fail(id, pdu.ErrnoPMID)
			continue
		}
		w.Begin(id)
		w.Word(-1, 42)
	}
	return nil
}

// SimpleInit is what the entry simple_init finds.
func SimpleInit(domain int) (agents.Agent, error) {
	return agent{pdu.NewPMID(domain, 0, 1)}, nil
}

// OtherInit is not of the type that is wanted.
func OtherInit() {}

// Entries that do not make an agent.

func FailsInit(int) (agents.Agent, error)  { return nil, errors.New("no such device") }
func NoneInit(int) (agents.Agent, error)   { return nil, nil }
func ExitsInit(int) (agents.Agent, error)  { runtime.Goexit(); return nil, nil }
func PanicsInit(int) (agents.Agent, error) { panic("ouch") }

// Leave lets StuckInit return.
var Leave = make(chan struct{})

func StuckInit(domain int) (agents.Agent, error) {
	<-Leave
	return SimpleInit(domain)
}

func main() {}
