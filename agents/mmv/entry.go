package mmv

import (
	"sync/atomic"

	"github.com/gopcp/pmcd/internal/mmvformat"
)

// none is the value of a number that is absent.
const none = mmvformat.NoValue

// A cell is what a value of a metric is to the registry.
type cell interface {
	// move copies the value to another entry, in which it is from then on.
	move(to *entry)
}

// An entry is where a value is: in a file, or in memory of its own. Each move of a value
// makes an entry, so that a pointer identifies the move, too.
type entry struct {
	value, extra *atomic.Uint64
	text         *textSlots // of a String in a file
	file         *mapping   // if any; the reference keeps it mapped
	left         uint64     // what a word moved on; guarded by Registry.moving
}

// ownEntry returns an entry in memory of its own, for a value that is in no file.
func ownEntry() *entry {
	var own struct {
		entry
		words [2]atomic.Uint64
	}
	own.value, own.extra = &own.words[0], &own.words[1]
	return &own.entry
}

// textSlots are two entries of the section of strings. The value of a String is in one of
// them, which its extra word names. A new value is written to the other one, so that a
// reader does not see half of it.
type textSlots struct {
	offset [2]uint64
	bytes  [2][]byte
	used   int
}
