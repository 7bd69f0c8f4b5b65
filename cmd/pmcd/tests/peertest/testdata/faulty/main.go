// A Go plugin with entries and metrics that go wrong in all ways.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// Items of the metrics. A fetch of any but the first does not return.
const (
	good = iota + 1
	panics
	loops
	blocks
)

type agent struct{ domain int }

func (a agent) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	if id.Cluster() != 0 || id.Item() < good || id.Item() > blocks {
		return pdu.Desc{}, pdu.ErrnoPMID
	}
	return pdu.Desc{PMID: id, ValueType: pdu.MetricU32, InDom: pdu.NoInDom, Sem: pdu.SemInstant}, nil
}

func (a agent) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	for _, id := range r.PMIDs {
		switch id.Item() {
		case good:
			w.Begin(id)
			w.Word(pdu.NoInst, uint32(a.domain))
		case panics:
			var none map[string]int
			none["x"] = 1
		case loops:
			for {
			}
		case blocks:
			fmt.Fprintln(os.Stderr, "agent", a.domain, "blocks")
			<-make(chan int)
		default:
			w.Fail(id, pdu.ErrnoPMID)
		}
	}
	return nil
}

func GoodInit(domain int) (agents.Agent, error) { return agent{domain}, nil }
func PanicsInit(int) (agents.Agent, error)      { panic("no device") }
func NoneInit(int) (agents.Agent, error)        { return nil, nil }
func StuckInit(int) (agents.Agent, error)       { select {} }
func OtherInit()                                {}

func FailsInit(int) (agents.Agent, error) {
	_, err := os.Open("/no/such/device")
	return nil, err
}

func main() {}
