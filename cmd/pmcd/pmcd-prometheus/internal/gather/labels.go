package gather

import (
	"hash/maphash"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// A series is one instance of a metric, or the metric if it has none.
type series struct {
	labels []*dto.LabelPair
	same   bool // another series of the metric has the same labels
	scrape int  // the last one in which it had a value
}

// seriesOf returns the series of an instance, or nil if d has no such instance. Without an
// indom, there is one series.
func (m *metric) seriesOf(d *indom, inst int32) *series {
	if d == nil {
		inst = pdu.NoInst
	}
	if s, ok := m.series[inst]; ok {
		return s
	}
	s := new(series)
	if m.pairs == nil {
		m.pairs = pairs(m.labels)
		sortPairs(m.pairs)
	}
	s.labels = m.pairs
	if d != nil {
		own, ok := d.pairsOf(inst)
		if !ok {
			return nil
		}
		if len(d.labels[inst]) > 0 {
			s.labels = pairs(pmapi.MergeLabels(m.labels, d.labels[inst]))
		}
		s.labels = addPairs(slices.Clip(s.labels), own[:]...)
		sortPairs(s.labels)
		s.same = !m.addOwn(s.labels)
	}
	if m.series == nil {
		m.series = make(map[int32]*series)
	}
	m.series[inst] = s
	return s
}

// withString returns labels and one for a string, whose name is the last part of that of m, as in
// filesys_mountdir_info{mountdir="/home"}. A label that has this name already stays.
func (m *metric) withString(labels []*dto.LabelPair, v pmapi.Value) []*dto.LabelPair {
	text, err := v.Text()
	name := m.names[0][strings.LastIndexByte(m.names[0], '.')+1:]
	if err != nil || !isLabelName(name) {
		return labels
	}
	labels = addPairs(slices.Clip(labels), newPair(name, strings.ToValidUTF8(text, "\uFFFD")))
	sortPairs(labels)
	return labels
}

// seed is that of all hashes of labels. Agents cannot know it.
var seed = maphash.MakeSeed()

// addOwn notes the labels of an instance, and returns false if another one has the same: an
// agent can have labels with the names instid and instname, too.
func (m *metric) addOwn(labels []*dto.LabelPair) bool {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, p := range labels {
		for _, text := range []string{p.GetName(), p.GetValue()} {
			h.WriteString(text)
			h.WriteByte(0xff) // is in no text
		}
	}
	key := h.Sum64()
	if m.own[key] {
		return false
	}
	if m.own == nil {
		m.own = make(map[uint64]bool)
	}
	m.own[key] = true
	return true
}

// pairs returns labels for Prometheus. Components of a label's name are separated by "_" in
// place of "."; if two labels have the same name then, the second is left out.
func pairs(labels []pmapi.Label) []*dto.LabelPair {
	var list []*dto.LabelPair
	for _, l := range labels {
		name := strings.ReplaceAll(l.Name, ".", "_")
		if isLabelName(name) {
			list = addPairs(list, newPair(name, labelValue(l.Value)))
		}
	}
	return list
}

// isLabelName reports whether a label may have a name. Prometheus has names of its own that
// begin with two underscores.
func isLabelName(name string) bool {
	return model.LegacyValidation.IsValidLabelName(name) && !strings.HasPrefix(name, "__")
}

func sortPairs(list []*dto.LabelPair) {
	slices.SortFunc(list, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
}

func newPair(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

// addPairs adds labels to a list, but for those whose names are there already.
func addPairs(list []*dto.LabelPair, more ...*dto.LabelPair) []*dto.LabelPair {
	for _, p := range more {
		if !slices.ContainsFunc(list, func(q *dto.LabelPair) bool { return q.GetName() == p.GetName() }) {
			list = append(list, p)
		}
	}
	return list
}

// labelValue returns the text of a JSON value without the quotes of a string, as pmproxy does.
// Prometheus refuses all values of a host if a label is not UTF-8.
func labelValue(json string) string {
	if n := len(json); n >= 2 && json[0] == '"' && json[n-1] == '"' {
		json = json[1 : n-1]
	}
	return strings.ToValidUTF8(json, "\uFFFD")
}
