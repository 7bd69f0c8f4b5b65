package pdu

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/gopcp/pmcd/internal/pduformat"
)

// Mistakes in the use of a [ResultWriter].
var (
	ErrNoSet  = errors.New("value without an open value set")
	ErrFormat = errors.New("value set mixes words and blocks")
)

// A ResultWriter appends one Result or HighResResult PDU to a buffer, one value set
// after the other. It does not allocate for each value. A writer that is reused
// with a reused buffer does not allocate at all.
//
// Its methods return no error. Finish returns the first failure.
type ResultWriter struct {
	b       []byte   // ends with the PDU being written
	start   int      // where in b that begins
	body    int      // where in b its value sets begin
	sets    int      // value sets so far
	open    int      // where in b the open set has its count; 0 if none is open
	blocks  []byte   // the value blocks, which go behind the last value set
	before  [][]byte // value blocks before these: see newChunk
	nBefore int      // bytes of these
	max     int      // bytes, or 0
	err     error
}

// Reset starts a Result PDU sent by from at the end of b. A PDU that w has not
// finished is lost. The bytes before len(b) do not change.
func (w *ResultWriter) Reset(b []byte, from int32) {
	w.reset(b, TypeResult, from, resultHeaderLen)
}

// ResetHighRes is Reset for a HighResResult PDU.
func (w *ResultWriter) ResetHighRes(b []byte, from int32) {
	w.reset(b, TypeHighResResult, from, highResHeaderLen)
}

func (w *ResultWriter) reset(b []byte, t Type, from int32, headerLen int) {
	var zero [highResHeaderLen]byte
	w.start = len(b)
	w.b = append(b, zero[:headerLen]...)
	w.body = len(w.b)
	binary.BigEndian.PutUint32(w.b[w.start+4:], uint32(t))
	binary.BigEndian.PutUint32(w.b[w.start+8:], uint32(from))
	w.sets, w.open, w.blocks, w.err = 0, 0, w.blocks[:0], nil
	w.forget()
}

// forget lets go of large memory.
func (w *ResultWriter) forget() {
	clear(w.before)
	w.before, w.nBefore = w.before[:0], 0
}

// Cap reports how many bytes of memory w holds for its next use.
func (w *ResultWriter) Cap() int { return cap(w.b) + cap(w.blocks) }

// Limit sets the longest PDU in bytes. A longer one fails with ErrTooLong before it
// takes more memory. 0 is the limit of the protocol.
func (w *ResultWriter) Limit(max int) { w.max = max }

// full reports whether the limit is passed, and makes that the failure.
func (w *ResultWriter) full() bool {
	n := len(w.b) - w.start + w.nBefore + len(w.blocks)
	if w.max == 0 || n <= w.max {
		return false
	}
	w.open = 0
	w.fail(ErrTooLong)
	return true
}

func (w *ResultWriter) highRes() bool { return w.body-w.start == highResHeaderLen }

// SetTime sets the two words of time of a Result. From an agent they carry
// state change flags; without SetTime they are 0.
func (w *ResultWriter) SetTime(sec, usec int32) {
	if w.highRes() {
		w.fail(ErrUnknownType)
		return
	}
	binary.BigEndian.PutUint32(w.b[w.start+HeaderLen:], uint32(sec))
	binary.BigEndian.PutUint32(w.b[w.start+HeaderLen+4:], uint32(usec))
}

// SetHighResTime sets the time of a HighResResult.
func (w *ResultWriter) SetHighResTime(sec, nsec int64) {
	if !w.highRes() {
		w.fail(ErrUnknownType)
		return
	}
	binary.BigEndian.PutUint64(w.b[w.start+HeaderLen+4:], uint64(sec))
	binary.BigEndian.PutUint64(w.b[w.start+HeaderLen+12:], uint64(nsec))
}

// Len reports the number of value sets so far.
func (w *ResultWriter) Len() int { return w.sets }

// Err returns the first failure, or nil. After a failure, the PDU is lost, so a
// caller may stop.
func (w *ResultWriter) Err() error { return w.err }

// Fail appends a value set with code in place of values. The code 0 means that the
// metric has no values.
func (w *ResultWriter) Fail(id PMID, code Errno) {
	if code > 0 {
		w.fail(ErrField)
		return
	}
	w.u32(uint32(id))
	w.u32(uint32(code))
	w.sets++
	w.open = 0
}

// Begin starts the value set of a metric. The next Begin, Fail or Finish ends
// it. A value set may have no values.
func (w *ResultWriter) Begin(id PMID) {
	if w.full() {
		return
	}
	w.u32(uint32(id))
	w.open = len(w.b)
	w.u32(0)
	w.sets++
}

// Word appends a value of a 32-bit type other than MetricFloat. A metric
// without instances has inst NoInst here and in the methods below.
func (w *ResultWriter) Word(inst int32, v uint32) { w.value(FormatInsitu, inst, v) }

// Block appends a value of any other type, v being its bytes in wire order. For MetricString, see
// String.
func (w *ResultWriter) Block(inst int32, typ MetricType, v []byte) {
	if typ == MetricString {
		v = escapeBlock(v)
	}
	if w.block(inst, typ, len(v)) {
		w.blocks = append(w.blocks, v...)
		w.blocks = appendPad(w.blocks, len(v))
	}
}

// Uint64 appends a value of type Metric64 or MetricU64.
func (w *ResultWriter) Uint64(inst int32, typ MetricType, v uint64) {
	if w.block(inst, typ, 8) {
		w.blocks = binary.BigEndian.AppendUint64(w.blocks, v)
	}
}

// Float32 appends a value of type MetricFloat. As in libpcp it is a block, although
// it would fit in a word.
func (w *ResultWriter) Float32(inst int32, v float32) {
	if w.block(inst, MetricFloat, 4) {
		w.blocks = binary.BigEndian.AppendUint32(w.blocks, math.Float32bits(v))
	}
}

// Float64 appends a value of type MetricDouble.
func (w *ResultWriter) Float64(inst int32, v float64) {
	w.Uint64(inst, MetricDouble, math.Float64bits(v))
}

// String appends a value of type MetricString, with a NUL at its end for C clients. Control characters
// other than tabs and newlines are escaped: see [EscapeControls].
func (w *ResultWriter) String(inst int32, s string) {
	s = EscapeControls(s, textControls)
	if w.block(inst, MetricString, len(s)+1) {
		w.blocks = append(append(w.blocks, s...), 0)
		w.blocks = appendPad(w.blocks, len(s)+1)
	}
}

// Finish returns the buffer given to Reset with the PDU at its end. After a
// failure it returns the buffer unchanged and the error.
func (w *ResultWriter) Finish() ([]byte, error) {
	defer w.forget()
	w.full()
	n := len(w.b) - w.start
	blocks := w.nBefore + len(w.blocks)
	total := int64(n) + int64(blocks)
	if total > math.MaxInt32 {
		w.fail(ErrTooLong)
	}
	typ := TypeResult
	count := w.b[w.start+resultHeaderLen-4:]
	if w.highRes() {
		typ = TypeHighResResult
		count = w.b[w.start+HeaderLen:]
	}
	if w.err != nil {
		return w.b[:w.start], &ParseError{Type: typ, Off: n, Err: w.err}
	}
	binary.BigEndian.PutUint32(w.b[w.start:], uint32(total))
	binary.BigEndian.PutUint32(count, uint32(w.sets))
	if blocks > 0 {
		// So far offsets count from the first block.
		pduformat.Rebase(w.b[w.body:], w.sets, uint32(n/4))
	}
	w.b = slices.Grow(w.b, blocks)
	for _, c := range w.before {
		w.b = append(w.b, c...)
	}
	w.b = append(w.b, w.blocks...)
	w.open = 0
	return w.b, nil
}

func (w *ResultWriter) value(format uint32, inst int32, word uint32) {
	if w.full() {
		return
	}
	if w.open == 0 {
		w.fail(ErrNoSet)
		return
	}
	n := binary.BigEndian.Uint32(w.b[w.open:])
	if n == 0 {
		w.u32(format)
	} else if binary.BigEndian.Uint32(w.b[w.open+4:]) != format {
		w.fail(ErrFormat)
		return
	}
	binary.BigEndian.PutUint32(w.b[w.open:], n+1)
	if len(w.b) > chunk && cap(w.b)-len(w.b) < valueLen {
		w.b = slices.Grow(w.b, len(w.b))
	}
	w.u32(uint32(inst))
	w.u32(word)
}

// block appends a value and the head of its block, which n bytes are to follow.
func (w *ResultWriter) block(inst int32, typ MetricType, n int) bool {
	h, err := blockHead(typ, n)
	if err != nil {
		w.fail(err)
	}
	if w.err != nil {
		return false
	}
	w.value(FormatBlock, inst, uint32((w.nBefore+len(w.blocks))/4))
	if w.err != nil {
		return false
	}
	if len(w.blocks) >= chunk && cap(w.blocks)-len(w.blocks) < blockSize(n) {
		w.newChunk(blockSize(n))
	}
	w.blocks = binary.BigEndian.AppendUint32(w.blocks, h)
	return true
}

// newChunk allocates n bytes of value blocks. If there are many, their memory does not grow,
// which would copy them again and again and leave five times as much to the garbage collector: it
// is a list. Finish copies it once.
func (w *ResultWriter) newChunk(n int) {
	w.before = append(w.before, w.blocks)
	w.nBefore += len(w.blocks)
	w.blocks = make([]byte, 0, max(n, min(w.nBefore, 16*chunk)))
}

// chunk is the size from which memory is large, in bytes.
const chunk = 64 << 10

func (w *ResultWriter) u32(v uint32) { w.b = binary.BigEndian.AppendUint32(w.b, v) }

func (w *ResultWriter) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}
