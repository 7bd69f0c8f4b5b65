package relay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
	"reflect"
	"testing"

	"github.com/gopcp/pmcd/internal/pduformat"
	"github.com/gopcp/pmcd/pdu"
)

// crossed are bodies of Results with value blocks in another order than the values,
// and with overlapping value blocks.
var crossed = []string{
	"00000000 00000000 00000001 07400004 00000002 00000001 00000000 0000000f 00000001 0000000d 06000008 61620000 06000007 63640000",
	"00000000 00000000 00000001 07400004 00000002 00000001 00000000 0000000d 00000001 0000000e 06000008 06000008 61620000 00000000",
}

// A ResultWriter that joins the results of two agents, and the errors of a third,
// returns the same PDU as Append.
func FuzzMove(f *testing.F) {
	var bodies [][]byte
	for _, c := range captures(f) {
		bodies = append(bodies, c.wire[pdu.HeaderLen:])
	}
	bodies = append(bodies, unhex(f, mixed)[pdu.HeaderLen:])
	for _, body := range crossed {
		bodies = append(bodies, unhex(f, body))
	}
	for i, body := range bodies {
		f.Add(body, bodies[(i+1)%len(bodies)], uint64(i)*0x9e3779b97f4a7c15, i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, body1, body2 []byte, turns uint64, high bool) {
		var sources [3]Sets
		var left [3][]pdu.ValueSet
		size := pduformat.ResultHeaderLen
		for i, body := range [][]byte{body1, body2} {
			b := frame(body)
			_, m, err := pdu.Parse(bytes.Clone(b)) // Move writes to b
			if err != nil {
				return
			}
			left[i] = m.(*pdu.Result).Sets
			if err := sources[i].Open(b, pmids(left[i])); err != nil {
				t.Fatal(err)
			}
			size += len(b) - pduformat.ResultHeaderLen
		}
		for _, vs := range left[0] {
			left[2] = append(left[2], pdu.ValueSet{PMID: vs.PMID ^ 1<<30, Err: pdu.ErrnoAgain})
		}
		sources[2].Fail(pmids(left[2]), pdu.ErrnoAgain)
		size += pduformat.EmptySetLen * len(left[2])

		var w ResultWriter
		w.Reset(nil, 0)
		if high {
			w.ResetHighRes(nil, 0)
			size += SpareHighRes
		}
		for i := range sources {
			w.Join(&sources[i])
		}
		want := []pdu.ValueSet{}
		for i := 0; len(left[0])+len(left[1])+len(left[2]) > 0; i = (i + 1) % 3 {
			n := min(1+int(turns%4), len(left[i]))
			turns = bits.RotateLeft64(turns, -2)
			w.Move(&sources[i], n)
			want = append(want, left[i][:n]...)
			left[i] = left[i][n:]
		}
		out, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if len(out) != size {
			t.Fatalf("%d bytes, want %d", len(out), size)
		}
		_, m, err := pdu.Parse(out)
		var got []pdu.ValueSet
		switch m := m.(type) {
		case *pdu.Result:
			got = m.Sets
		case *pdu.HighResResult:
			got = m.Sets
		}
		if err != nil || len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("%v:\n got %+v\nwant %+v\n in %x\nand %x\nout %x", err, got, want, body1, body2, out)
		}
	})
}

// CheckResult accepts what Parse does, if the metrics are right.
func FuzzCheckResult(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		b := frame(body)
		var ids []pdu.PMID
		_, m, perr := pdu.Parse(b)
		if perr == nil {
			ids = pmids(m.(*pdu.Result).Sets)
		} else if len(b) >= pduformat.ResultHeaderLen {
			// The PMIDs in the PDU, as far as they can be read.
			n := binary.BigEndian.Uint32(b[pduformat.ResultHeaderLen-4:])
			for rest := b[pduformat.ResultHeaderLen:]; len(rest) >= pduformat.EmptySetLen && len(ids) < int(n); {
				ids = append(ids, pdu.PMID(binary.BigEndian.Uint32(rest)))
				size := pduformat.EmptySetLen
				if k := int(int32(binary.BigEndian.Uint32(rest[4:]))); k > 0 && k < len(rest) {
					size = pduformat.SetLen + pduformat.ValueLen*k
				}
				rest = rest[min(size, len(rest)):]
			}
		}
		cerr := CheckResult(b, ids)
		if (perr == nil) != (cerr == nil) {
			t.Fatalf("Parse: %v\nCheckResult: %v\n in %x", perr, cerr, b)
		}
		if cerr != nil {
			return
		}
		if err := CheckResult(b, append(ids, 1)); !errors.Is(err, pdu.ErrCount) {
			t.Fatalf("one metric more: %v", err)
		}
		for i := range ids {
			ids[i] ^= 1
			if err := CheckResult(b, ids); !errors.Is(err, pdu.ErrPMID) {
				t.Fatalf("other metric %d: %v", i, err)
			}
			ids[i] ^= 1
		}
	})
}

// If CheckResult accepts a PDU, ToHighRes makes the PDU that Parse and Append make.
func FuzzToHighRes(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		b := frame(body)
		_, m, err := pdu.Parse(b)
		if err != nil {
			return
		}
		r := m.(*pdu.Result)
		if err := CheckResult(b, pmids(r.Sets)); err != nil {
			t.Fatal(err)
		}
		hi := spare(b)
		ToHighRes(hi)
		SetHighResTime(hi, int64(r.Sec), int64(r.Usec))
		_, got, err := pdu.Parse(hi)
		want := &pdu.HighResResult{Sec: int64(r.Sec), Nsec: int64(r.Usec), Sets: r.Sets}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v:\n got %+v\nwant %+v", err, got, want)
		}
	})
}
