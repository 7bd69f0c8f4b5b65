package gather

import (
	"context"
	"maps"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// An indom has the instances of an instance domain.
type indom struct {
	version int // increases when instances change
	names   map[int32]string
	labels  map[int32][]pmapi.Label
	asked   int // the number of the scrape for which pmcd was asked
}

// refresh asks for the instances and, if they are others than before, for their labels. If an
// agent does not answer, there are no instances.
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
	if d.names != nil && maps.Equal(names, d.names) {
		return nil
	}
	d.version++
	d.names, d.labels = names, make(map[int32][]pmapi.Label)
	sets, err := c.LabelsAt(ctx, pdu.LabelInstances, uint32(id))
	switch {
	case isLost(err):
		d.names = nil
		return err
	case isTransient(err): // series without these labels would be others
		d.names = nil
		return nil
	}
	for _, s := range sets {
		d.labels[s.Inst] = s.Labels
	}
	return nil
}
