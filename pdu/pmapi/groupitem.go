package pmapi

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// Bindable are the types of variables in a [Group]. Numbers are rounded for integers. For a
// string, values are as [Value.Text] has them, so aggregates and events have none. A [Value]
// can be of any type; the rate of a counter, and what is in other units than its metric's, has
// type pdu.MetricDouble. Its bytes are valid until the next fetch.
type Bindable interface {
	int64 | uint64 | float64 | string | Value
}

// Instance is the value of one instance, for [BindAll]. Of a metric without instances, the ID
// is [pdu.NoInst] and the Name is empty.
type Instance[T Bindable] struct {
	ID    int32
	Name  string // "" if the instance has gone since the fetch, or its agent does not tell the name
	Value T
	Err   error // why there is no Value, or nil: as [Item.Err]
}

// Bind makes each fetch of g write the value of a metric to *x. The name need not exist yet:
// see [Item.Err].
func Bind[T Bindable](g *Group, x *T, metric string, o ItemOptions) *Item {
	i := newItem[T](g, metric, o)
	i.set = func(insts []instance) {
		var zero T
		*x = zero
		if i.err != nil {
			return
		}
		at := slices.IndexFunc(insts, func(inst instance) bool { return inst.id == i.inst })
		if at < 0 {
			// pmcd may give the instance another number.
			i.err = i.fail(pdu.ErrnoInst)
			i.stale()
			return
		}
		var err error
		if *x, err = convert[T](insts[at]); err != nil {
			i.err = fmt.Errorf("%s: %w", i.metric, err)
		}
	}
	return i
}

// BindAll makes each fetch of g write the values of all instances of a metric to *x, whose
// memory it uses again. A metric without instances counts as one instance.
func BindAll[T Bindable](g *Group, x *[]Instance[T], metric string, o ItemOptions) *Item {
	i := newItem[T](g, metric, o)
	i.all = true
	i.set = func(insts []instance) {
		*x = (*x)[:0]
		if i.err != nil {
			return
		}
		for _, inst := range insts {
			v, err := convert[T](inst)
			*x = append(*x, Instance[T]{ID: inst.id, Name: g.nameOf(i.desc.InDom, inst.id), Value: v, Err: err})
		}
	}
	return i
}

func newItem[T Bindable](g *Group, metric string, o ItemOptions) *Item {
	i := &Item{metric: metric, opts: o, id: pdu.NoPMID, before: make(map[int32]Value), spare: make(map[int32]Value)}
	i.stale()
	_, i.text = any(*new(T)).(string)
	i.err = i.fail(pdu.ErrnoAgain)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.items = append(g.items, i)
	return i
}

func (i *Item) fail(code pdu.Errno) error {
	if i.opts.Instance != "" {
		return fmt.Errorf("%s[%s]: %w", i.metric, i.opts.Instance, code)
	}
	return fmt.Errorf("%s: %w", i.metric, code)
}

// isRate reports whether the variable has the rate of a counter.
func (i *Item) isRate() bool { return !i.text && !i.opts.Raw && i.desc.Sem == pdu.SemCounter }

// take takes the values of i from a result. elapsed is the time since the result before.
func (i *Item) take(set *pdu.ValueSet, elapsed time.Duration) {
	i.insts, i.err = i.insts[:0], nil
	if set.Err < 0 {
		i.err = i.fail(set.Err)
		clear(i.before)
		return
	}
	if len(set.Values) == 0 && !i.all {
		i.err = i.fail(pdu.ErrnoValue)
	}
	before := i.before
	isRate := i.isRate()
	if isRate {
		i.before, i.spare = i.spare, before
		clear(i.before)
	}
	for _, v := range set.Values {
		if !i.all && v.Inst != i.inst {
			continue
		}
		inst := instance{id: v.Inst}
		inst.value, inst.err = Decode(set, v, i.desc.ValueType)
		if inst.err == nil && !i.text {
			i.number(&inst, isRate, before, elapsed)
		}
		i.insts = append(i.insts, inst)
	}
}

// number computes the number of a value: its rate, if it is that of a counter, in the units
// that are wanted.
func (i *Item) number(inst *instance, isRate bool, before map[int32]Value, elapsed time.Duration) {
	units := i.desc.Units
	factor := 1.0
	if isRate {
		i.before[inst.id] = inst.value
		earlier, ok := before[inst.id]
		if !ok {
			inst.err = pdu.ErrnoAgain
			return
		}
		if inst.rate, inst.err = Rate(earlier, inst.value, elapsed, i.opts.Wraps); inst.err != nil {
			return
		}
		units, factor = RateUnits(units)
		inst.rate *= factor
	} else if i.opts.Units == 0 || i.opts.Units == units {
		return // exact integers
	} else if inst.rate, inst.err = inst.value.Float64(); inst.err != nil {
		return
	}
	if i.opts.Units != 0 {
		inst.rate, inst.err = Convert(inst.rate, units, i.opts.Units)
	}
	inst.value = ValueOf(inst.rate)
}

// convert returns the value of an instance for a variable.
func convert[T Bindable](inst instance) (T, error) {
	var x T
	err := inst.err
	if err != nil {
		return x, err
	}
	v := inst.value
	switch any(x).(type) {
	case int64, uint64:
		if v.typ == pdu.MetricDouble || v.typ == pdu.MetricFloat {
			f, _ := v.Float64()
			v = ValueOf(math.Round(f))
		}
	}
	switch p := any(&x).(type) {
	case *int64:
		*p, err = v.Int64()
	case *uint64:
		*p, err = v.Uint64()
	case *float64:
		*p, err = v.Float64()
	case *string:
		*p, err = v.Text()
	case *Value:
		*p = inst.value
	}
	return x, err
}
