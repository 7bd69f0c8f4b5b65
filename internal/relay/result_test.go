package relay

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// The value sets of two results and of an agent without values are joined in one
// result without decoding.
func TestMove(t *testing.T) {
	src := unhex(t, mixed)
	_, m, err := pdu.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	sets := m.(*pdu.Result).Sets
	open := func(s *Sets) {
		if err := s.Open(bytes.Clone(src), pmids(sets)); err != nil { // Move writes to it
			t.Fatal(err)
		}
	}
	var w ResultWriter
	var s1, s2, failed Sets // which are used again
	for _, reset := range []func([]byte, int32){w.Reset, w.ResetHighRes} {
		reset([]byte("x"), 7)
		open(&s1)
		open(&s2)
		failed.Fail(pmids(sets), pdu.ErrnoAgain)
		for _, s := range []*Sets{&s1, &failed, &s2} {
			w.Join(s)
		}
		var want []pdu.ValueSet
		w.Move(&s1, 0)
		for rest := sets; len(rest) > 0; {
			some := rest[:min(len(rest), 1+len(want))] // one, then several
			w.Move(&s1, len(some))
			w.Move(&s2, len(some))
			w.Move(&failed, len(some))
			want = append(append(want, some...), some...)
			for _, vs := range some {
				want = append(want, pdu.ValueSet{PMID: vs.PMID, Err: pdu.ErrnoAgain})
			}
			rest = rest[len(some):]
		}
		b, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		var got []pdu.ValueSet
		switch _, m, err := pdu.Parse(b[1:]); m := m.(type) {
		case *pdu.Result:
			got = m.Sets
		case *pdu.HighResResult:
			got = m.Sets
		default:
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}

	tests := []struct {
		name  string
		moved int
		other func()
	}{
		{"not all", len(sets) - 1, func() {}},
		{"others", len(sets), func() { w.Fail(1, 0) }},
	}
	for _, tt := range tests {
		open(&s1)
		w.Reset(nil, 0)
		w.Join(&s1)
		w.Move(&s1, tt.moved)
		tt.other()
		if _, err := w.Finish(); !errors.Is(err, pdu.ErrLength) {
			t.Errorf("%s: got %v, want %v", tt.name, err, pdu.ErrLength)
		}
	}
	w.Reset(nil, 0) // and nothing of it is left
	w.Fail(1, 0)
	if b, err := w.Finish(); err != nil || CheckResult(b, []pdu.PMID{1}) != nil {
		t.Errorf("used again: %x, %v", b, err)
	}
	s1.Fail(pmids(sets), 0) // nor of what was opened
	w.Reset(nil, 0)
	w.Join(&s1)
	w.Move(&s1, len(sets))
	if b, err := w.Finish(); err != nil || CheckResult(b, pmids(sets)) != nil {
		t.Errorf("failed: %x, %v", b, err)
	}
}

// joinable returns the sets of a Result PDU.
func joinable(t *testing.T) (*Sets, []pdu.PMID) {
	t.Helper()
	var w pdu.ResultWriter
	w.Reset(nil, 0)
	ids := []pdu.PMID{1, 2}
	for _, id := range ids {
		w.Begin(id)
		w.Uint64(pdu.NoInst, pdu.MetricU64, 1)
	}
	b, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	s := new(Sets)
	if err := s.Open(b, ids); err != nil {
		t.Fatal(err)
	}
	return s, ids
}

// Joined sets that are not longer than the limit are moved.
func TestLimitOfJoinedSets(t *testing.T) {
	sets, ids := joinable(t)
	var w ResultWriter
	w.Limit(len(sets.wire))
	w.Reset(nil, 0)
	w.Join(sets)
	w.Move(sets, 1)
	w.Move(sets, len(ids)-1)
	if b, err := w.Finish(); err != nil || len(b) != len(sets.wire) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func TestResultWriterRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(*ResultWriter)
		err  error
	}{
		{"joined sets beyond the limit", func(w *ResultWriter) {
			sets, ids := joinable(t)
			w.Limit(len(sets.wire) - 1)
			w.Join(sets)
			w.Move(sets, len(ids))
		}, pdu.ErrTooLong},
		{"errors beyond the limit", func(w *ResultWriter) {
			w.Limit(100)
			for range 20 {
				w.Fail(1, pdu.ErrnoPMID)
			}
		}, pdu.ErrTooLong},
		{"positive code", func(w *ResultWriter) { w.Fail(1, 1) }, pdu.ErrField},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var w ResultWriter
			w.Reset([]byte("before"), 7)
			tt.do(&w)
			if b, err := w.Finish(); !errors.Is(err, tt.err) || string(b) != "before" {
				t.Errorf("got %q, %v, want %v", b, err, tt.err)
			}
		})
	}
}
