package mmv

import (
	"context"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/debugopt"
)

// A control is a metric NAME.control.*, in cluster 0.
type control struct {
	name          string
	item          int
	typ           pdu.MetricType
	oneline, text string
	number        func(a *agent) int32
}

// controls are the metrics of PCP 7.2.
var controls = []control{
	{"reload", 0, pdu.Metric32, "Control maps reloading",
		"Storing a value other than 0 makes the agent read the directory and all\nfiles again at the next request. The value is 1 while a file is not complete.",
		func(a *agent) int32 { return a.reload }},
	{"debug", 1, pdu.MetricString, "Debug options",
		"The debug options of this agent, pmdbg(1). With appl0 it logs when it has\nread the directory again. They are not those of pmcd.", nil},
	{"files", 2, pdu.Metric32, "Memory mapped file count",
		"The number of files whose metrics are exported.",
		func(a *agent) int32 { return int32(len(a.files)) }},
	{"metrics", 3, pdu.Metric32, "Memory mapped metric count",
		"The number of metrics of all files.",
		func(a *agent) int32 { return int32(a.metrics) }},
}

// control returns the control metric with a PMID, or nil.
func (a *agent) control(id pdu.PMID) *control {
	if id.Cluster() != 0 || id.Item() >= len(controls) {
		return nil
	}
	return &controls[id.Item()]
}

func (a *agent) isControl(id pdu.PMID) bool { return a.control(id) != nil }

func (c *control) desc(id pdu.PMID) pdu.Desc {
	return pdu.Desc{PMID: id, ValueType: c.typ, InDom: pdu.NoInDom, Sem: pdu.SemInstant}
}

// put appends the value set.
func (c *control) put(a *agent, w *pdu.ResultWriter, id pdu.PMID) {
	w.Begin(id)
	if c.number == nil {
		w.String(pdu.NoInst, strings.Join(a.debug, ","))
		return
	}
	w.Word(pdu.NoInst, uint32(c.number(a)))
}

// Store implements [agents.Storer]. It stores value sets in order until the first error.
//
// C differs: it ignores a store into an unknown metric of cluster 0. Debug options are those of
// its process, which may be pmcd.
func (a *agent) Store(ctx context.Context, _ agents.Origin, r *pdu.Result) error {
	if err := a.refresh(ctx, true); err != nil {
		return err
	}
	for i := range r.Sets {
		s := &r.Sets[i]
		c := a.control(s.PMID)
		switch {
		case c == nil && s.PMID.Cluster() == 0:
			return pdu.ErrnoPMID
		case c == nil:
			return pdu.ErrnoPermission
		case len(s.Values) != 1:
			return pdu.ErrnoBadStore
		}
		v := &s.Values[0]
		if c.typ == pdu.MetricString {
			if err := a.setDebug(s, v); err != nil {
				return err
			}
			continue
		}
		n, err := toInt32(s, v)
		if err != nil {
			return err
		}
		if c.name != "reload" {
			return pdu.ErrnoPermission
		}
		a.reload, a.forced = n, n != 0
	}
	return nil
}

func toInt32(s *pdu.ValueSet, v *pdu.Value) (int32, error) {
	if s.Format == pdu.FormatInsitu {
		return int32(v.Word), nil
	}
	return 0, pdu.ErrnoConv // as pmExtractValue(3) for a block
}

// setDebug clears the debug options and sets others, as pmSetDebug(3) does.
func (a *agent) setDebug(s *pdu.ValueSet, v *pdu.Value) error {
	a.debug = nil
	if s.Format == pdu.FormatInsitu || v.Type != pdu.MetricString {
		return pdu.ErrnoConv
	}
	text, _, _ := strings.Cut(string(v.Block), "\x00")
	list, err := debugopt.Parse(text)
	if err != nil {
		return pdu.ErrnoConv
	}
	a.debug = slices.Clip(list)
	return nil
}
