package fuzztest

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/gopcp/pmcd/pdu"
)

// pick returns one of its arguments.
func pick[T any](rnd *rand.Rand, choices ...T) T { return choices[rnd.IntN(len(choices))] }

// randomBytes returns up to most bytes.
func randomBytes(rnd *rand.Rand, most int) []byte {
	b := make([]byte, 1+rnd.IntN(most))
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// boundaries are numbers at which lengths, counts and offsets go wrong.
var boundaries = []uint32{0, 1, 2, 3, 4, 11, 12, 13, 16, 1023, 1024, 1025, 4095, 4096, 65535, 65536, 65537, 1 << 20, 1 << 24, 1<<31 - 1, 1 << 31, 1<<32 - 4, 1<<32 - 1}

// mutate returns a copy of a PDU with some changes.
func mutate(rnd *rand.Rand, b []byte) []byte {
	b = slices.Clone(b)
	for range 1 + rnd.IntN(3) {
		if len(b) == 0 {
			return b
		}
		at := rnd.IntN(len(b))
		switch rnd.IntN(8) {
		case 0, 1:
			b[at] ^= 1 << rnd.IntN(8)
		case 2:
			b[at] = byte(rnd.Uint32())
		case 3, 4: // a word
			if at &^= 3; at+4 <= len(b) {
				binary.BigEndian.PutUint32(b[at:], pick(rnd, append(boundaries, uint32(len(b)))...))
			}
		case 5:
			b = slices.Insert(b, at, randomBytes(rnd, 16)...)
		case 6:
			b = slices.Delete(b, at, min(len(b), at+1+rnd.IntN(16)))
		case 7: // the type
			if len(b) >= pdu.HeaderLen {
				binary.BigEndian.PutUint32(b[4:], 0x7000+rnd.Uint32N(0x20))
			}
		}
	}
	if len(b) >= pdu.HeaderLen && rnd.IntN(2) == 0 { // otherwise pmcd sees little but a wrong length
		binary.BigEndian.PutUint32(b, uint32(len(b)))
	}
	return b
}
