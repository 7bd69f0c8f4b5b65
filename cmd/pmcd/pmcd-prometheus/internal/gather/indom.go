package gather

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// An indom has the instances of an instance domain.
type indom struct {
	version int // increases when instances change
	names   map[int32]string
	labels  map[int32][]pmapi.Label
	pairs   map[int32][2]*dto.LabelPair // instname and instid, which series of all metrics share
	asked   int                         // the number of the scrape for which pmcd was asked
	again   bool                        // labels may be others
}

// pairsOf returns the labels of an instance that are its name and number.
func (d *indom) pairsOf(inst int32) (own [2]*dto.LabelPair, ok bool) {
	name, ok := d.names[inst]
	if !ok {
		return own, false
	}
	own, ok = d.pairs[inst]
	if !ok {
		own[0] = newPair("instname", strings.ToValidUTF8(name, "\uFFFD"))
		own[1] = newPair("instid", strconv.FormatUint(uint64(uint32(inst)), 10))
		d.pairs[inst] = own
	}
	return own, true
}

// refresh asks for the instances and, if they are others than before or d.again is set, for their
// labels. If an agent does not answer, there are no instances.
func (d *indom) refresh(ctx context.Context, c Client, id pdu.InDom) error {
	insts, err := c.Instances(ctx, id)
	if isLost(err) {
		return err
	}
	if err != nil {
		d.names = nil
		d.version++
		return nil
	}
	names := make(map[int32]string, len(insts))
	for _, i := range insts {
		if i.Name != "" {
			names[i.ID] = i.Name
		}
	}
	same := d.names != nil && maps.Equal(names, d.names)
	if same && !d.again {
		return nil
	}
	sets, err := c.LabelsAt(ctx, pmapi.LabelInstances, uint32(id))
	if isLost(err) || isTransient(err) {
		if !same { // series without these labels would be others
			d.names = nil
			d.version++
		}
		if isLost(err) {
			return err
		}
		return nil
	}
	labels := make(map[int32][]pmapi.Label)
	for _, s := range sets {
		labels[s.Inst] = s.Labels
	}
	d.again = false
	if same && maps.EqualFunc(labels, d.labels, slices.Equal) {
		return nil
	}
	d.version++
	d.names, d.labels, d.pairs = names, labels, make(map[int32][2]*dto.LabelPair)
	return nil
}
