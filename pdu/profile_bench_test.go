package pdu

import (
	"fmt"
	"testing"
)

// profileOf returns the PDU of a profile with n instance domains, in no order.
func profileOf(n int) []byte {
	p := new(Profile)
	for i := range n {
		p.InDoms = append(p.InDoms, InDomProfile{InDom: NewInDom(60, int(uint32(i)*2654435761&0x3fffff)), Exclude: true})
	}
	b, err := Append(nil, 0, p)
	if err != nil {
		panic(err)
	}
	return b
}

// most is the number of instance domains of the largest profile that a client may send.
const most = 4094

func BenchmarkProfileParse(b *testing.B) {
	for _, n := range []int{0, 1, 8, 16, 64, most} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			wire := profileOf(n)
			var p Profile
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseInto(wire, &p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Each instance domain of a profile, and one that it has not, is looked up in turn.
func BenchmarkProfileFor(b *testing.B) {
	for _, n := range []int{0, 1, 8, 16, 64, most} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var p Profile
			if _, err := ParseInto(profileOf(n), &p); err != nil {
				b.Fatal(err)
			}
			i := 0
			for b.Loop() {
				indom := NoInDom
				if i < n {
					indom = p.InDoms[i].InDom
				}
				if got := p.For(indom); got.InDom != indom {
					b.Fatal(got)
				}
				if i++; i > n {
					i = 0
				}
			}
		})
	}
}
