package metrics

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// A Sample has the values of metrics at a time.
type Sample struct {
	Time    time.Time `json:"time"`
	Metrics []Metric  `json:"metrics"`
}

// A Metric has what pmcdctl shows of a metric. A command fills the fields that it is for.
type Metric struct {
	Name      string          `json:"name"`
	PMID      string          `json:"pmid,omitempty"`
	Type      string          `json:"type,omitempty"`
	Semantics string          `json:"semantics,omitempty"`
	Units     string          `json:"units,omitempty"`
	Rate      bool            `json:"rate,omitempty"` // Values are rates of a counter, in Units
	InDom     string          `json:"indom,omitempty"`
	Values    []Value         `json:"values,omitempty"`
	Instances []Instance      `json:"instances,omitempty"`
	Labels    json.RawMessage `json:"labels,omitempty"`
	OneLine   string          `json:"oneline,omitempty"`
	Help      string          `json:"help,omitempty"`
	Error     string          `json:"error,omitempty"`

	Desc  pdu.Desc  `json:"-"`
	Scale pdu.Units `json:"-"` // of Values
	Err   error     `json:"-"` // whose text is Error

	instance  string // the only one that is selected
	labelsErr error
}

// Label returns the name of the metric, with the instance if only that is selected.
func (m *Metric) Label() string { return Selection{m.Name, m.instance}.String() }

// A Value is the value of a metric, or of one of its instances.
type Value struct {
	Instance string `json:"instance,omitempty"`
	ID       *int32 `json:"id,omitempty"` // of the instance
	// Value is a number, or null if it is none or infinite, or a text: a string, or what PCP
	// prints of an aggregate or of events.
	Value any    `json:"value"`
	Error string `json:"error,omitempty"`

	Is  pmapi.Value `json:"-"`
	Err error       `json:"-"` // whose text is Error
}

// Label returns the name of a value of a metric.
func (v *Value) Label(metric string) string { return Selection{metric, v.Instance}.String() }

// describe fills the fields for a descriptor.
func (m *Metric) describe(d pdu.Desc, units pdu.Units) {
	m.Desc, m.Scale = d, units
	m.PMID, m.Type, m.Semantics, m.Units = d.PMID.String(), typeText(d.ValueType), d.Sem.String(), units.String()
	if d.InDom != pdu.NoInDom {
		m.InDom = d.InDom.String()
	}
}

func (m *Metric) fail(err error) {
	m.Err, m.Error = err, err.Error()
}

// write writes the last values of i to m.
func (i *item) write(m *Metric, rates bool) {
	m.Name, m.instance = i.Name, i.Instance
	d := i.item.Desc()
	if d.PMID != pdu.NoPMID {
		m.describe(d, i.item.Units())
		m.Rate = rates && d.Sem == pdu.SemCounter
	}
	err := i.item.Err()
	if i.Instance != "" {
		if err != nil && !errors.Is(err, pdu.ErrnoAgain) && !errors.Is(err, pmapi.ErrReset) {
			m.fail(err)
			return
		}
		m.Values = []Value{newValue(pmapi.Instance[pmapi.Value]{Name: i.Instance, ID: pdu.NoInst, Value: i.one, Err: err})}
		return
	}
	if err != nil {
		m.fail(err)
		return
	}
	for _, inst := range i.all {
		m.Values = append(m.Values, newValue(inst))
	}
}

func newValue(inst pmapi.Instance[pmapi.Value]) Value {
	v := Value{Instance: inst.Name, Is: inst.Value, Err: inst.Err}
	if inst.ID != pdu.NoInst {
		v.ID = &inst.ID
		if v.Instance == "" {
			v.Instance = "?" + strconv.Itoa(int(inst.ID)) // it has gone, or its agent has no name for it
		}
	}
	if inst.Err != nil {
		v.Error = inst.Err.Error()
		return v
	}
	switch f, err := inst.Value.Float64(); {
	case err != nil:
		text, err := inst.Value.Text()
		if err != nil {
			text = inst.Value.String()
		}
		v.Value = text
	case math.IsNaN(f) || math.IsInf(f, 0):
	default:
		v.Value = number(inst.Value, f)
	}
	return v
}

// number returns a number that is f for JSON: in full, and not longer than that.
func number(v pmapi.Value, f float64) json.Number {
	var b []byte
	switch v.Type() {
	case pdu.MetricFloat:
		b, _ = json.Marshal(float32(f))
	case pdu.MetricDouble:
		b, _ = json.Marshal(f)
	default:
		return json.Number(v.String())
	}
	return json.Number(b)
}

// Text returns the value for people: a number as in JSON, and all else as PCP prints it.
func (v *Value) Text() string {
	if n, ok := v.Value.(json.Number); ok {
		return n.String()
	}
	return v.Is.String()
}

// HasRates reports whether a value is the rate of a counter.
func (s *Sample) HasRates() bool {
	for i := range s.Metrics {
		if s.Metrics[i].Rate {
			return true
		}
	}
	return false
}

// Failed reports whether a metric has an error.
func (s *Sample) Failed() bool {
	for i := range s.Metrics {
		if s.Metrics[i].Err != nil {
			return true
		}
	}
	return false
}
