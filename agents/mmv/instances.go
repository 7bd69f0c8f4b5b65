package mmv

import (
	"errors"
	"fmt"
	"math"

	"github.com/gopcp/pmcd/internal/mmvformat"
)

// An InDom describes an instance domain (pmGetInDom(3)).
type InDom struct {
	// Serial identifies the instance domain, from 1 to 2047. If it is 0, Publish chooses the
	// lowest one that is not in use. Files with the same Cluster and Serial share their
	// instances, which then need the same ids: see Instances.AddID.
	Serial int

	// Names are the first instances. They have the ids 0, 1, ...
	Names []string

	OneLine string // short help text, one line, at most 255 bytes
	Text    string // full help text, at most 255 bytes
	Labels  Labels

	// InstLabels, if not nil, returns the labels of an instance, or nil if it has none. It
	// is called when the instance is added.
	InstLabels func(name string) Labels
}

// Instances are the instances of an instance domain. Its methods add and remove instances,
// and define metrics that have a value for each of them.
type Instances struct {
	registry *Registry
	desc     InDom // Registry.mu guards the serial
	labels   []label

	// Registry.mu guards the following.
	list    []instance
	present map[string]bool  // those in list
	ids     map[string]int32 // also of those that were removed: they keep their ids
	used    map[int32]bool   // the ids
	next    int32
	metrics []*metric
}

type instance struct {
	name   string
	id     int32
	labels []label
}

// Instances defines an instance domain. An error says all that is wrong with d.
func (r *Registry) Instances(d InDom) (*Instances, error) {
	x := &Instances{registry: r, desc: d, present: make(map[string]bool), ids: make(map[string]int32), used: make(map[int32]bool)}
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	x.labels, err = d.Labels.encode()
	errs := []error{err, checkOneLine(d.OneLine), checkText("a help text", d.Text)}
	switch {
	case d.Serial < 0 || d.Serial > mmvformat.MaxSerial:
		errs = append(errs, fmt.Errorf("the serial is not in the range of 1 to %d", mmvformat.MaxSerial))
	case d.Serial != 0 && r.serials.used[d.Serial]:
		errs = append(errs, errors.New("the serial is in use"))
	case len(r.domains) == mmvformat.MaxSerial:
		errs = append(errs, fmt.Errorf("a file has at most %d instance domains", mmvformat.MaxSerial))
	}
	added, err := x.new(d.Names)
	err = errors.Join(append(errs, err, r.countLabels(len(x.labels)))...)
	if err != nil {
		return nil, fmt.Errorf("mmv: instance domain %d: %w", d.Serial, err)
	}
	x.append(added)
	r.serials.used[d.Serial] = true
	r.domains = append(r.domains, x)
	r.outdated = true
	return x, nil
}

// Add adds instances, each with an id that was not in use. Names that are instances already
// are ignored. A name has 1 to 255 bytes. If one of the names cannot be added, none is.
//
// If the registry is published, Add writes the file again, with all metrics and instance
// domains that were defined since. So one call with several names costs less than several
// calls. If the file cannot be written, the instances are added nevertheless: they are in the
// file after the next Publish or Add that succeeds.
func (x *Instances) Add(names ...string) error {
	x.registry.mu.Lock()
	defer x.registry.mu.Unlock()
	added, err := x.new(names)
	if err != nil {
		return fmt.Errorf("mmv: instance domain %d: %w", x.desc.Serial, err)
	}
	if len(added) == 0 {
		return nil
	}
	x.append(added)
	return x.registry.update()
}

// AddID adds an instance with an id, which is not negative.
func (x *Instances) AddID(id int32, name string) error {
	x.registry.mu.Lock()
	defer x.registry.mu.Unlock()
	err := x.reserve(id, name)
	var added []instance
	if err == nil {
		added, err = x.new([]string{name})
	}
	if err != nil {
		return fmt.Errorf("mmv: instance domain %d: %w", x.desc.Serial, err)
	}
	if len(added) == 0 {
		return nil
	}
	x.append(added)
	return x.registry.update()
}

// reserve makes id the one that the name gets.
func (x *Instances) reserve(id int32, name string) error {
	old, known := x.ids[name]
	switch {
	case known && old == id:
		return nil
	case known:
		return fmt.Errorf("instance %q has id %d", name, old)
	case id < 0 || x.used[id]:
		return fmt.Errorf("id %d is negative or in use", id)
	}
	x.ids[name], x.used[id] = id, true
	return nil
}

// Remove removes instances with their values. Names that are no instances are ignored. What
// At has returned for them ignores updates as far as clients can see. An instance that is
// added again has its former id, and new values.
func (x *Instances) Remove(names ...string) error {
	r := x.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		delete(x.present, name)
	}
	if len(x.present) == len(x.list) {
		return nil
	}
	var list []instance
	var cells []cell
	kept := make([][]cell, len(x.metrics))
	for i, inst := range x.list {
		gone := !x.present[inst.name]
		if gone {
			r.nlabels -= len(inst.labels)
		} else {
			list = append(list, inst)
		}
		for j, m := range x.metrics {
			if gone {
				cells = append(cells, m.cells[i])
			} else {
				kept[j] = append(kept[j], m.cells[i])
			}
		}
	}
	x.list = list
	for j, m := range x.metrics {
		m.cells = kept[j]
		m.table.remove(names)
	}
	err := r.update()
	r.moving.Lock()
	defer r.moving.Unlock()
	for _, c := range cells {
		c.move(ownEntry())
	}
	return err
}

// Names returns the names of the instances.
func (x *Instances) Names() []string {
	x.registry.mu.Lock()
	defer x.registry.mu.Unlock()
	names := make([]string, len(x.list))
	for i, inst := range x.list {
		names[i] = inst.name
	}
	return names
}

// new returns those of the names that are not instances yet, and counts their labels.
func (x *Instances) new(names []string) ([]instance, error) {
	var list []instance
	seen := make(map[string]bool)
	n := 0
	for _, name := range names {
		if x.present[name] || seen[name] {
			continue
		}
		seen[name] = true
		if name == "" {
			return nil, errors.New("an instance without a name")
		}
		if err := checkText("the name of an instance", name); err != nil {
			return nil, err
		}
		inst := instance{name: name}
		if x.desc.InstLabels != nil {
			var err error
			if inst.labels, err = x.desc.InstLabels(name).encode(); err != nil {
				return nil, fmt.Errorf("instance %q: %w", name, err)
			}
			n += len(inst.labels)
		}
		list = append(list, inst)
	}
	if len(x.list)+len(list) > math.MaxInt32/2 {
		return nil, errors.New("too many instances")
	}
	return list, x.registry.countLabels(n)
}

// append adds instances and their values.
func (x *Instances) append(added []instance) {
	names := make([]string, len(added))
	for i := range added {
		name := added[i].name
		if _, known := x.ids[name]; !known {
			for x.used[x.next] {
				x.next++
			}
			x.ids[name], x.used[x.next] = x.next, true
		}
		added[i].id, x.present[name] = x.ids[name], true
		names[i] = name
	}
	x.list = append(x.list, added...)
	for _, m := range x.metrics {
		m.cells = append(m.cells, m.table.add(names)...)
	}
}

// update writes the file again if there is one. The caller holds mu.
func (r *Registry) update() error {
	if r.file == nil {
		return nil
	}
	return r.write()
}
