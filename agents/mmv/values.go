package mmv

import "sync/atomic"

// Values has the values of a metric for all instances.
type Values[V any] struct {
	make func() (*V, cell)
	// The map is never changed, but replaced, so that At needs no lock.
	byName atomic.Pointer[map[string]*V]
}

// At returns the value for an instance. It is nil, which ignores updates, if there is no
// such instance or if v is nil. At neither locks nor allocates, but it is still faster to keep its result.
func (v *Values[V]) At(instance string) *V {
	if v == nil {
		return nil
	}
	return (*v.byName.Load())[instance]
}

// A table is Values of any type.
type table interface {
	add(names []string) []cell
	remove(names []string)
}

func (v *Values[V]) add(names []string) []cell {
	cells := make([]cell, len(names))
	v.replace(func(values map[string]*V) {
		for i, name := range names {
			values[name], cells[i] = v.make()
		}
	})
	return cells
}

func (v *Values[V]) remove(names []string) {
	v.replace(func(values map[string]*V) {
		for _, name := range names {
			delete(values, name)
		}
	})
}

// replace replaces the map by a changed copy.
func (v *Values[V]) replace(change func(map[string]*V)) {
	values := make(map[string]*V)
	if old := v.byName.Load(); old != nil {
		for name, value := range *old {
			values[name] = value
		}
	}
	change(values)
	v.byName.Store(&values)
}

// Counter defines a metric with a value for each instance.
func (x *Instances) Counter(m Metric) (*Values[Counter], error) {
	return multiple[Counter](x, counter, m)
}

// FloatCounter defines a metric with a value for each instance.
func (x *Instances) FloatCounter(m Metric) (*Values[FloatCounter], error) {
	return multiple[FloatCounter](x, floatCounter, m)
}

// Gauge defines a metric with a value for each instance.
func (x *Instances) Gauge(m Metric) (*Values[Gauge], error) { return multiple[Gauge](x, gauge, m) }

// FloatGauge defines a metric with a value for each instance.
func (x *Instances) FloatGauge(m Metric) (*Values[FloatGauge], error) {
	return multiple[FloatGauge](x, floatGauge, m)
}

// String defines a metric with a value for each instance.
func (x *Instances) String(m Metric) (*Values[String], error) { return multiple[String](x, text, m) }

// Elapsed defines a metric with a value for each instance.
func (x *Instances) Elapsed(m Metric) (*Values[Elapsed], error) {
	return multiple[Elapsed](x, elapsed, m)
}

// multiple defines a metric with a value for each instance.
func multiple[V any, P value[V]](x *Instances, k kind, m Metric) (*Values[V], error) {
	x.registry.mu.Lock()
	defer x.registry.mu.Unlock()
	v := &Values[V]{make: func() (*V, cell) { v := newValue[V, P](x.registry); return v, v }}
	names := []string{}
	for _, inst := range x.list {
		names = append(names, inst.name)
	}
	def, err := x.registry.check(k, m)
	if err != nil {
		return nil, err
	}
	def.domain, def.table, def.cells = x, v, v.add(names)
	x.metrics = append(x.metrics, def)
	return v, nil
}
