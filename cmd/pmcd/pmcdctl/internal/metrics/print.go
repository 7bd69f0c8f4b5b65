package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/message"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/table"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// PrintJSON writes v as JSON.
func PrintJSON(w io.Writer, v any) error {
	enc := message.NewJSONEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// List returns the metrics with these names: with details also what they are, and the line of
// help.
func List(ctx context.Context, c *pmapi.Client, names []string, details bool) ([]Metric, error) {
	if !details {
		list := make([]Metric, len(names))
		for i, name := range names {
			list[i].Name = name
		}
		return list, nil
	}
	list, err := Descs(ctx, c, names)
	if err != nil {
		return nil, err
	}
	for i := range list {
		m := &list[i]
		if m.Err != nil {
			continue
		}
		if m.OneLine, err = c.Text(ctx, m.Desc.PMID, pmapi.TextOneLine); IsLost(err) {
			return nil, err
		}
	}
	return list, nil
}

// Descs returns the metrics with these names, with their descriptors.
func Descs(ctx context.Context, c *pmapi.Client, names []string) ([]Metric, error) {
	list := make([]Metric, len(names))
	for i, name := range names {
		list[i].Name = name
	}
	if len(names) == 0 {
		return list, nil
	}
	return list, addDescs(ctx, c, list)
}

// addDescs adds the descriptors to a list of names.
func addDescs(ctx context.Context, c *pmapi.Client, list []Metric) error {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	ids, err := c.Lookup(ctx, names...)
	if ids == nil {
		return err
	}
	errs := errorsOf(err, len(ids))
	descs, err := c.Descs(ctx, ids...)
	if descs == nil {
		return err
	}
	descErrs := errorsOf(err, len(ids))
	for i := range list {
		switch {
		case errs[i] != nil:
			list[i].fail(errs[i])
		case descErrs[i] != nil:
			list[i].fail(withHint(descErrs[i]))
		default:
			list[i].describe(descs[i], descs[i].Units)
		}
	}
	return nil
}

// PrintList writes a list for people.
func PrintList(w io.Writer, list []Metric, details bool) error {
	p := table.New(w)
	for i := range list {
		switch m := &list[i]; {
		case !details:
			p.Line("%s", m.Name)
		case m.Err != nil:
			p.Line("%s\t-\t-\t-\t%s", m.Name, m.Err.Error())
		default:
			p.Line("%s\t%s\t%s\t%s\t%s", m.Name, m.Type, m.Semantics, m.Units, m.OneLine)
		}
	}
	return p.Flush()
}

// typeText returns a type in lower case, as pmproxy has it in JSON.
func typeText(t pdu.MetricType) string { return strings.ToLower(t.String()) }

// PrintSample writes values for people, one a line.
func PrintSample(w io.Writer, s *Sample) error {
	p := table.New(w)
	for i := range s.Metrics {
		m := &s.Metrics[i]
		switch {
		case m.Err != nil:
			p.Line("%s\t%s", m.Label(), "no value: "+m.cause())
			continue
		case len(m.Values) == 0:
			p.Line("%s\t%s", m.Name, "no values")
		}
		units := ""
		if m.Scale != 0 {
			units = " " + m.Units
		}
		for j := range m.Values {
			v := &m.Values[j]
			if v.Err != nil {
				p.Line("%s\t%s", v.Label(m.Name), "no value: "+v.Error)
				continue
			}
			p.Line("%s\t%s", v.Label(m.Name), v.Text()+units)
		}
	}
	return p.Flush()
}

// cause returns the error of m without its name, and with what can be done.
func (m *Metric) cause() string {
	text := m.Error
	var code pdu.Errno
	if errors.As(m.Err, &code) {
		text = code.Error()
	}
	if h := hint(m.Err); h != "" {
		text += " (" + h + ")"
	}
	return text
}

// Describe returns all about metrics.
func Describe(ctx context.Context, c *pmapi.Client, selected []Selection) ([]Metric, error) {
	names := make([]string, len(selected))
	for i, s := range selected {
		names[i] = s.Name
	}
	list, err := Descs(ctx, c, names)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if m := &list[i]; m.Err == nil {
			if err := m.addDetails(ctx, c); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// An Instance is an instance of a metric.
type Instance struct {
	ID     int32           `json:"id"`
	Name   string          `json:"name"`
	Labels json.RawMessage `json:"labels,omitempty"` // those of the metric included
}

// addDetails adds texts, instances and labels. That there is none of a kind is no error.
func (m *Metric) addDetails(ctx context.Context, c *pmapi.Client) error {
	id := m.Desc.PMID
	var err error
	if m.OneLine, err = c.Text(ctx, id, pmapi.TextOneLine); IsLost(err) {
		return err
	}
	if m.Help, err = c.Text(ctx, id, pmapi.TextHelp); IsLost(err) {
		return err
	}
	m.Help = strings.TrimRight(m.Help, " \n")
	labels, err := c.Labels(ctx, id)
	if IsLost(err) {
		return err
	}
	if m.labelsErr = err; len(labels) > 0 {
		m.Labels = labelsJSON(labels[0].Labels)
	}
	if m.Desc.InDom == pdu.NoInDom {
		return nil
	}
	insts, err := c.Instances(ctx, m.Desc.InDom)
	if IsLost(err) {
		return err
	}
	byInst := make(map[int32][]pmapi.Label)
	for _, l := range labels[min(1, len(labels)):] { // the first are those of the metric
		byInst[l.Inst] = l.Labels
	}
	for _, inst := range insts {
		m.Instances = append(m.Instances, Instance{ID: inst.ID, Name: inst.Name, Labels: labelsJSON(byInst[inst.ID])})
	}
	return nil
}

// labelsJSON returns labels as JSON, or nothing if they are none: what an agent has sent may
// be anything.
func labelsJSON(labels []pmapi.Label) json.RawMessage {
	if b := []byte(pmapi.LabelsJSON(labels)); len(labels) > 0 && json.Valid(b) {
		return b
	}
	return nil
}

// fewInstances is how many instances are shown to people.
const fewInstances = 12

// PrintDescriptions writes what Describe returns for people.
func PrintDescriptions(w io.Writer, list []Metric) error {
	p := table.New(w)
	for i := range list {
		m := &list[i]
		if i > 0 {
			p.Line("")
		}
		p.Line("%s", m.Name)
		if m.Err != nil {
			p.Line("    %s", m.cause())
			continue
		}
		if m.OneLine != "" {
			p.Line("    %s", m.OneLine)
		}
		p.Flush()
		p.Line("")
		p.Line("    type\t%s", m.Type)
		p.Line("    semantics\t%s", m.Semantics+meaning[m.Desc.Sem])
		p.Line("    units\t%s", m.Units)
		p.Line("    PMID\t%s", m.PMID)
		if m.InDom != "" {
			var names []string
			for _, inst := range m.Instances[:min(len(m.Instances), fewInstances)] {
				names = append(names, inst.Name)
			}
			text := fmt.Sprintf("%d of domain %s", len(m.Instances), m.InDom)
			if len(names) > 0 {
				text += ": " + strings.Join(names, ", ")
			}
			if len(m.Instances) > fewInstances {
				text += ", ... (--json has all)"
			}
			p.Line("    instances\t%s", text)
		}
		switch {
		case m.labelsErr != nil:
			p.Line("    labels\t%s", "cannot be had: "+m.labelsErr.Error())
		case m.Labels != nil:
			p.Line("    labels\t%s", string(m.Labels))
		}
		p.Flush()
		if m.Help != "" && m.Help != m.OneLine {
			p.Line("")
			for line := range strings.SplitSeq(m.Help, "\n") {
				p.Line("    %s", strings.ReplaceAll(line, "\t", "        "))
			}
		}
		p.Flush()
	}
	return p.Flush()
}

// meaning says what kinds of semantics are.
var meaning = map[pdu.Sem]string{
	pdu.SemCounter:  ", increases: watch shows its rate",
	pdu.SemInstant:  ", changes at any time",
	pdu.SemDiscrete: ", changes rarely",
}
