package names

import (
	"errors"

	"github.com/gopcp/pmcd/daemon/internal/calls"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// dynamicNames are the names of a request that agents are asked for: those at or below
// dynamic roots. Each of them is an item of a calls.Series once, however often it is in the request.
type dynamicNames struct {
	r       Request
	names   []string
	roots   []pmnsload.DynamicRoot
	domains []int
	ids     []pdu.PMID   // what they are; NoPMID for those that are not known
	last    pdu.Errno    // the last error
	noted   map[int]bool // domains of agents that are noted as missing

	of    []dynamicName
	items map[string]int32 // index in names
}

// A dynamicName has the index of a name in the request, and its index in names.
type dynamicName struct{ name, item int32 }

// add adds the name with an index in the request. e is what it is below.
func (d *dynamicNames) add(i int32, name string, e pmnsload.Entry) {
	item, ok := d.items[name]
	if !ok {
		if d.items == nil {
			d.items = make(map[string]int32)
		}
		item = int32(len(d.names))
		d.items[name] = item
		d.names = append(d.names, name)
		d.roots = append(d.roots, pmnsload.DynamicRoot{Name: e.Name, Domain: e.Domain})
		d.domains = append(d.domains, e.Domain)
		d.ids = append(d.ids, pdu.NoPMID)
	}
	d.of = append(d.of, dynamicName{i, item})
}

// askNames asks agents for d.
func (r Request) askNames(d *dynamicNames) {
	d.r = r
	r.Calls.AskSeries(d, d.domains, pdu.ErrnoNoAgent)
}

func (d *dynamicNames) Append(b []byte, i int32) ([]byte, error) {
	return pdu.Append(b, 0, &pdu.PMNSNames{Names: d.names[i : i+1]})
}

func (d *dynamicNames) Answered(i int32, b []byte) error {
	var m pdu.PMNSIDs
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return err
	}
	switch {
	case len(m.PMIDs) != 1:
		d.last = pdu.ErrnoIPC
	case m.Status < 0:
		d.last = pdu.Errno(m.Status)
	case m.PMIDs[0] == pdu.NoPMID:
		d.last = pdu.ErrnoName
	default:
		d.ids[i] = m.PMIDs[0]
	}
	return nil
}

// Failed implements calls.Series. An agent that is late counts as one that is down.
func (d *dynamicNames) Failed(i int32, err error, asked bool) {
	d.last = calls.Errno(err)
	if asked {
		return
	}
	switch {
	case errors.Is(err, transport.ErrLate):
		d.last = pdu.ErrnoNoAgent
	case errors.Is(err, transport.ErrNotReady), errors.Is(err, pdu.ErrnoNoAgent), errors.Is(err, pdu.ErrnoPMDAFenced):
	default:
		return
	}
	if domain := d.domains[i]; !d.noted[domain] {
		if d.noted == nil {
			d.noted = make(map[int]bool)
		}
		d.noted[domain] = true
		d.r.note(d.roots[i], err, false)
	}
}
