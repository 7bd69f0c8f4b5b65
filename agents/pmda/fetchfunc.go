package pmda

import "context"

// FromData makes a FetchFunc of one that cannot fail and gets the data of the
// instance, see [Instances].
func FromData[T any](f func(v *Value, data *T)) FetchFunc {
	return func(_ context.Context, v *Value) error {
		f(v, v.Data().(*T))
		return nil
	}
}

// FromUint makes a FetchFunc of one that cannot fail; ok is false if there is no
// value.
func FromUint(f func() (n uint64, ok bool)) FetchFunc {
	return func(_ context.Context, v *Value) error {
		if n, ok := f(); ok {
			v.SetUint(n)
		}
		return nil
	}
}
