package pmda

import "context"

// FromData returns a FetchFunc that calls f with the data of the instance, which
// must be a *T: see [Value.Data].
func FromData[T any](f func(v *Value, data *T)) FetchFunc {
	return func(_ context.Context, v *Value) error {
		f(v, v.Data().(*T))
		return nil
	}
}

// FromUint returns a FetchFunc that sets the value to n. If ok is false, the metric
// has no value.
func FromUint(f func() (n uint64, ok bool)) FetchFunc {
	return func(_ context.Context, v *Value) error {
		if n, ok := f(); ok {
			v.SetUint(n)
		}
		return nil
	}
}
