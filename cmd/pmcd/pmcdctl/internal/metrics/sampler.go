package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// selectionTime is how long a selection is used. pmcd tells clients of changed agents, and of
// names that an agent has changed, but not of a name space that was loaded again.
const selectionTime = 10 * time.Second

// A Sampler fetches the values of metrics again and again. It selects anew what the arguments
// of the command select if pmcd tells of changes, and from time to time.
type Sampler struct {
	c       *pmapi.Client
	group   *pmapi.Group
	choices []Choice
	items   []*item // of choices, in order
	rates   bool

	// What the next fetch does first.
	again      bool // select anew, which it does after selectionTime, too
	newProfile bool // set the profile, as an instance may have another number

	selected time.Time
	profile  bool // pmcd does not send all instances
}

// An item is a selection in a group.
type item struct {
	Selection
	item *pmapi.Item
	all  []pmapi.Instance[pmapi.Value] // of a selection without an instance
	one  pmapi.Value
}

// NewSampler returns a Sampler for what is selected. With rates, a counter is its rate.
func NewSampler(ctx context.Context, c *pmapi.Client, choices []Choice, rates bool) (*Sampler, error) {
	s := &Sampler{c: c, group: c.NewGroup(), choices: choices, rates: rates, selected: time.Now()}
	s.bind()
	return s, s.setProfile(ctx)
}

// NewPlainSampler returns a Sampler without rates that fetches all instances.
func NewPlainSampler(c *pmapi.Client, selected []Selection) *Sampler {
	s := &Sampler{c: c, group: c.NewGroup(), choices: Choose(selected...), selected: time.Now()}
	s.bind()
	return s
}

// bind makes the items those of the choices. Items that were there before remain, for the
// rates of counters.
func (s *Sampler) bind() {
	before := make(map[Selection][]*item) // the same may be selected twice
	for _, i := range s.items {
		before[i.Selection] = append(before[i.Selection], i)
	}
	s.items = nil
	for _, sel := range Selected(s.choices) {
		if same := before[sel]; len(same) > 0 {
			s.items, before[sel] = append(s.items, same[0]), same[1:]
			continue
		}
		i := &item{Selection: sel}
		o := pmapi.ItemOptions{Instance: sel.Instance, Raw: !s.rates}
		if sel.Instance == "" {
			i.item = pmapi.BindAll(s.group, &i.all, sel.Name, o)
		} else {
			i.item = pmapi.Bind(s.group, &i.one, sel.Name, o)
		}
		s.items = append(s.items, i)
	}
	var gone []*pmapi.Item
	for _, items := range before {
		for _, i := range items {
			gone = append(gone, i.item)
		}
	}
	s.group.Remove(gone...)
}

// selectAgain selects anew. An argument that selects nothing now keeps what it has selected
// before, and the values of that have errors.
func (s *Sampler) selectAgain(ctx context.Context) error {
	args := make([]Selection, len(s.choices))
	for i, ch := range s.choices {
		args[i] = ch.Arg
	}
	choices, err := Select(ctx, s.c, args)
	if err != nil {
		return err
	}
	for i, ch := range choices {
		if ch.Err == nil {
			s.choices[i] = ch
		}
	}
	s.bind()
	s.selected = time.Now()
	return nil
}

// setProfile makes pmcd send only the instances that are selected, for domains of which all
// metrics are selected with instances, and all of these exist.
func (s *Sampler) setProfile(ctx context.Context) error {
	whole := make(map[pdu.InDom]bool)
	insts := make(map[pdu.InDom][]int32)
	var doms []pdu.InDom
	for _, i := range s.items {
		ids, err := s.c.Lookup(ctx, i.Name)
		if IsLost(err) {
			return err
		}
		if err != nil {
			continue
		}
		d, err := s.c.Desc(ctx, ids[0])
		switch {
		case IsLost(err):
			return err
		case err != nil || d.InDom == pdu.NoInDom:
			continue
		case i.Instance == "":
			whole[d.InDom] = true
			continue
		}
		id, err := s.c.InstanceID(ctx, d.InDom, i.Instance)
		switch {
		case IsLost(err):
			return err
		case err != nil:
			whole[d.InDom] = true
			continue
		}
		if insts[d.InDom] == nil {
			doms = append(doms, d.InDom)
		}
		insts[d.InDom] = append(insts[d.InDom], id)
	}
	p := new(pdu.Profile)
	for _, dom := range doms {
		if !whole[dom] {
			p.InDoms = append(p.InDoms, pdu.InDomProfile{InDom: dom, Exclude: true, Insts: insts[dom]})
		}
	}
	if len(p.InDoms) > 0 || s.profile {
		s.c.SetProfile(p)
		s.profile = len(p.InDoms) > 0
	}
	return nil
}

// Fetch returns the values at this time. Its strings are valid until the next Fetch. An error
// is that of the connection.
func (s *Sampler) Fetch(ctx context.Context) (*Sample, error) {
	if s.again || time.Since(s.selected) >= selectionTime {
		if err := s.selectAgain(ctx); err != nil {
			return nil, err
		}
		s.again, s.newProfile = false, true
	}
	if s.newProfile {
		if err := s.setProfile(ctx); err != nil {
			return nil, err
		}
		s.newProfile = false
	}
	at, err := s.group.Fetch(ctx)
	if err != nil {
		return nil, err
	}
	changes, reconnected := s.group.Changes()
	known := false
	sample := &Sample{Time: at, Metrics: make([]Metric, len(s.items))}
	for n, i := range s.items {
		i.write(&sample.Metrics[n], s.rates)
		known = known || i.item.Desc().PMID != pdu.NoPMID
		if s.profile && errors.Is(i.item.Err(), pdu.ErrnoInst) {
			s.newProfile = true
		}
	}
	// If no name is known, there was no fetch that could have told of changes.
	s.again = reconnected || changes&^pdu.StateHostname&^pdu.StateLabelChange != 0 || !known
	return sample, nil
}
