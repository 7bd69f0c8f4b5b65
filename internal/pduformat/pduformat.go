// Package pduformat is the layout of the PDUs that package pdu encodes and decodes, and that
// package relay passes on without decoding them: lengths in bytes, and the value blocks of a
// result.
package pduformat

import (
	"encoding/binary"
	"math"
)

// Lengths of a PDU.
const (
	HeaderLen = 12                   // of the header: length, type, sender
	MaxLen    = math.MaxInt32 - 1024 // of the longest PDU that libpcp accepts
)

// Bytes in front of the first value set.
const (
	ResultHeaderLen  = HeaderLen + 12
	HighResHeaderLen = HeaderLen + 20
)

// Bytes of a value set in front of its values, without and with any, and of a value.
const (
	EmptySetLen = 8
	SetLen      = 12
	ValueLen    = 8
)

// FormatInsitu is the format of a value set whose values are words (PM_VAL_INSITU, pmapi.h). Those
// of other formats are offsets of blocks.
const FormatInsitu = 0

// MaxBlock is the length of the largest value block. It is in the lower 24 bits of the block's first
// word.
const MaxBlock = 0xffffff

// Pad4 returns n rounded up to whole words.
func Pad4(n int) int { return (n + 3) &^ 3 }

// Blocks checks the value blocks of a PDU while its value sets are read. As libpcp
// does, it checks that the lowest block starts at the end of the sets, and that the
// sizes add up to the rest of the PDU. It does not check that blocks do not overlap:
// with these sizes a copy cannot be larger than the PDU.
type Blocks struct {
	low  int // start of the lowest one, or the end of the PDU
	size int // of all blocks, with padding
}

// NewBlocks returns the Blocks of a PDU of n bytes.
func NewBlocks(n int) Blocks { return Blocks{low: n} }

// Add adds the block that starts at a word of b. It reports false if there is no valid
// block.
func (bs *Blocks) Add(b []byte, word uint32) bool {
	if word < HeaderLen/4 || word >= uint32(len(b)/4) {
		return false
	}
	off := int(word) * 4
	n := int(binary.BigEndian.Uint32(b[off:]) & MaxBlock)
	bs.low = min(bs.low, off)
	bs.size += Pad4(n)
	return n >= 4 && n <= len(b)-off && bs.size <= len(b)
}

// Follow reports whether the lowest block starts at off, the end of the value sets, and whether
// the blocks then end where the PDU of n bytes does.
func (bs *Blocks) Follow(off, n int) (start, end bool) {
	return bs.low == off || bs.size == 0, off+bs.size == n
}

// Rebase adds words to the offset of every value block in the first n value sets of b, which must
// be valid.
func Rebase(b []byte, n int, words uint32) {
	for size := 0; n > 0; n-- {
		set := b[size:]
		numval := int(int32(binary.BigEndian.Uint32(set[4:])))
		if numval <= 0 {
			size += EmptySetLen
			continue
		}
		values := set[SetLen:][:numval*ValueLen]
		size += SetLen + len(values)
		if binary.BigEndian.Uint32(set[EmptySetLen:]) == FormatInsitu {
			continue
		}
		for ; len(values) >= ValueLen; values = values[ValueLen:] {
			p := values[4:8]
			binary.BigEndian.PutUint32(p, binary.BigEndian.Uint32(p)+words)
		}
	}
}
