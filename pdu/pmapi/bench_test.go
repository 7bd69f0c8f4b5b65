package pmapi

import (
	"context"
	"strconv"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// BenchmarkFetch is what a fetch costs the client, without its system calls and pmcd: the
// values as numbers, and nothing allocated.
func BenchmarkFetch(b *testing.B) {
	for _, number := range []int{1, 100, 1000} {
		b.Run(strconv.Itoa(number), func(b *testing.B) {
			ids := make([]pdu.PMID, number)
			sets := make([]pdu.ValueSet, number)
			for i := range ids {
				ids[i] = countID
				sets[i] = NewValueSet(countID, pdu.NoInst, ValueOf(uint32(1)))
			}
			reply, err := pdu.Append(nil, 0, &pdu.HighResResult{Sec: 1, Sets: sets})
			if err != nil {
				b.Fatal(err)
			}
			conn := &replay{reply: reply}
			c := startFake(b).dial(Options{})
			c.conn.nc, c.conn.r = conn, pdu.NewReader(conn, 0)
			c.conn.profile = c.profile.Load()
			var r Result
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Fetch(context.Background(), ids, &r); err != nil {
					b.Fatal(err)
				}
				sum := 0.0
				for i := range r.Sets {
					v, err := Decode(&r.Sets[i], r.Sets[i].Values[0], pdu.MetricU32)
					if err != nil {
						b.Fatal(err)
					}
					f, _ := v.Float64()
					sum += f
				}
				if sum != float64(number) {
					b.Fatal(sum)
				}
			}
		})
	}
}
