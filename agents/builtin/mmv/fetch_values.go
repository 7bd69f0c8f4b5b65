package mmv

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/gopcp/pmcd/internal/mmvformat"
	"github.com/gopcp/pmcd/pdu"
)

// readValues reads the values that were found. It reports whether a file has changed since
// it was loaded. The values of that file are PM_ERR_AGAIN.
func (a *agent) readValues(ctx context.Context) (changed bool, err error) {
	f := &a.fetch
	f.texts = f.texts[:0]
	f.order = f.order[:0]
	for i := range f.values {
		f.order = append(f.order, int32(i))
	}
	byOffset := func(i, j int32) int {
		v, w := &f.values[i], &f.values[j]
		return cmp.Or(v.f.position-w.f.position, int(int64(v.off)-int64(w.off)))
	}
	if !slices.IsSortedFunc(f.order, byOffset) {
		slices.SortFunc(f.order, byOffset)
	}
	for rest := f.order; len(rest) > 0; {
		from := f.values[rest[0]].f
		n := 1
		for n < len(rest) && f.values[rest[n]].f == from {
			n++
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if !a.readFile(ctx, from, rest[:n]) {
			changed = true
			for _, i := range rest[:n] {
				f.values[i].code = pdu.ErrnoAgain
			}
		}
		rest = rest[n:]
	}
	return changed, ctx.Err()
}

// readFile reads the values of one file. It reports false if the file has changed.
func (a *agent) readFile(ctx context.Context, f *file, list []int32) bool {
	if err := a.in.open(f.path); err != nil {
		return false
	}
	defer a.in.close()
	for n, i := range list {
		if a.ended(ctx, n+1) != nil {
			return true // the caller ends, too
		}
		if err := a.readValue(&a.fetch.values[i]); err != nil {
			return false
		}
	}
	// Last: before a writer changes the layout, it changes the header.
	return !a.changedFile(f)
}

// readValue reads one value. The error says that the file has changed.
func (a *agent) readValue(v *found) error {
	b, err := a.in.at(&a.in.entries, int64(v.off), mmvformat.ValueSize)
	if err != nil {
		return err
	}
	v.data, v.extra = native.Uint64(b), int64(native.Uint64(b[8:]))
	switch v.m.typ {
	case mmvformat.Elapsed:
		return a.readElapsed(v)
	case mmvformat.String:
		s, err := a.in.at(&a.in.strings, v.extra, mmvformat.StringSize)
		if err == errOffset {
			v.code = pdu.ErrnoGeneric
			a.log.report(v.f.path, "string", errStringOffset)
			return nil
		}
		if err != nil {
			return err
		}
		s, _ = cutText(s)
		v.start = int32(len(a.fetch.texts))
		a.fetch.texts = append(append(a.fetch.texts, s...), 0)
		v.end = int32(len(a.fetch.texts))
	}
	return nil
}

// readElapsed reads value and extra of an Elapsed again until both are what they were before.
// At the end of a measurement, the writer adds the time to the value and then clears extra.
// Between the two, the time would count twice.
func (a *agent) readElapsed(v *found) error {
	const maxReads = 8 // a writer that measures very short times
	for range maxReads {
		var b [16]byte
		if err := a.in.read(b[:], int64(v.off)); err != nil {
			return err
		}
		data, extra := native.Uint64(b[:]), int64(native.Uint64(b[8:]))
		if data == v.data && extra == v.extra {
			break
		}
		v.data, v.extra = data, extra
	}
	return nil
}

// put appends a value set.
func (a *agent) put(w *pdu.ResultWriter, s *set, values []found) {
	if s.control != nil {
		s.control.put(a, w, s.id)
		return
	}
	code, begun := s.code, false
	for i := range values {
		v := &values[i]
		if v.code != 0 {
			code = v.code
			continue
		}
		if a.absent(v) {
			code = 0
			continue
		}
		if !begun {
			w.Begin(s.id)
			begun = true
		}
		a.putValue(w, v)
	}
	if !begun {
		w.Fail(s.id, code)
	}
}

// absent reports whether the file says that there is no value.
func (a *agent) absent(v *found) bool {
	if v.f.header.Flags&mmvformat.FlagSentinel == 0 {
		return false
	}
	switch v.m.typ {
	case mmvformat.Float:
		return math.IsNaN(float64(math.Float32frombits(low(v.data))))
	case mmvformat.Double:
		return math.IsNaN(math.Float64frombits(v.data))
	case mmvformat.String:
		return v.end == v.start+1
	}
	return v.data == mmvformat.NoValue
}

func (a *agent) putValue(w *pdu.ResultWriter, v *found) {
	switch v.m.typ {
	case mmvformat.Int32, mmvformat.Uint32:
		w.Word(v.inst, low(v.data))
	case mmvformat.Int64, mmvformat.Uint64:
		w.Uint64(v.inst, pdu.MetricType(v.m.typ), v.data)
	case mmvformat.Float:
		w.Float32(v.inst, math.Float32frombits(low(v.data)))
	case mmvformat.Double:
		w.Float64(v.inst, math.Float64frombits(v.data))
	case mmvformat.Elapsed:
		if v.extra < 0 { // under way
			v.data += uint64(a.now().UnixMicro() + v.extra)
		}
		w.Uint64(v.inst, pdu.Metric64, v.data)
	case mmvformat.String:
		w.Block(v.inst, pdu.MetricString, a.fetch.texts[v.start:v.end])
	}
}

// low returns the first four bytes of the data of a value.
func low(data uint64) uint32 {
	var b [8]byte
	native.PutUint64(b[:], data)
	return native.Uint32(b[:])
}
