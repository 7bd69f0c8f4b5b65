package txmon

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Key is the key of the shared memory, shmget(2): 0xdeadbeef as a signed number.
const Key = 0xdeadbeef - 1<<32

const (
	blockAlign   = 32 // alignment of the first block, in bytes
	nameSize     = 20
	initialLevel = 2
)

// A txBlock is the block of a type of transactions. Other processes change its fields
// at any time, so they are read and written atomically.
type txBlock struct {
	name    [nameSize]byte
	base    uint32
	counted uint32
	maxBits uint32
	sumBits uint64
	_       [24]byte
}

var _ [64]byte = [unsafe.Sizeof(txBlock{})]byte{} // the size is 64 on all machines

// A memory is the shared memory of one agent, and pointers to its parts.
type memory struct {
	id        int
	bytes     []byte
	header    *[2]int32 // level, n
	blocks    []txBlock
	typeNames []string // copies of those in the blocks, which other processes can overwrite
}

// newMemory makes the shared memory for these types, or uses the one with this key
// if there is one and it is large enough.
func newMemory(key int, types []string) (_ *memory, err error) {
	if len(types) == 0 {
		return nil, errors.New("no transaction types specified")
	}
	first := (4*(2+len(types)) + blockAlign - 1) / blockAlign * blockAlign
	size := first + len(types)*int(unsafe.Sizeof(txBlock{}))
	if size > math.MaxInt32 {
		return nil, fmt.Errorf("%d types are too many", len(types))
	}
	m := new(memory)
	if m.id, err = unix.SysvShmGet(key, size, unix.IPC_CREAT|0o666); err != nil {
		if err == unix.EINVAL {
			err = fmt.Errorf("%w (there is a smaller one: remove it with ipcrm -M %#x)", err, uint32(key))
		}
		return nil, fmt.Errorf("shared memory %#x of %d bytes: %w", uint32(key), size, err)
	}
	if m.bytes, err = unix.SysvShmAttach(m.id, 0, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("attaching shared memory: %w", err), m.remove())
	}
	if len(m.bytes) < size { // does not happen on Linux
		return nil, errors.Join(fmt.Errorf("shared memory has %d bytes and not %d", len(m.bytes), size), m.Close())
	}
	// The memory begins at a page, so all its parts are aligned.
	m.header = (*[2]int32)(unsafe.Pointer(&m.bytes[0]))
	m.blocks = unsafe.Slice((*txBlock)(unsafe.Pointer(&m.bytes[first])), len(types))
	index := unsafe.Slice((*int32)(unsafe.Pointer(&m.bytes[8])), len(types))
	for i, name := range types {
		name, _, _ = strings.Cut(name[:min(len(name), nameSize-1)], "\x00")
		m.typeNames = append(m.typeNames, name)
		atomic.StoreInt32(&index[i], int32(first+i*int(unsafe.Sizeof(txBlock{}))))
		m.blocks[i].clear(name)
	}
	atomic.StoreInt32(&m.header[1], int32(len(types)))
	m.setLevel(initialLevel)
	return m, nil
}

func (m *memory) level() int32     { return atomic.LoadInt32(&m.header[0]) }
func (m *memory) setLevel(n int32) { atomic.StoreInt32(&m.header[0], n) }

// Close removes the memory. Processes that are attached to it can go on using it, but
// the next agent makes another one.
func (m *memory) Close() error {
	m.header, m.blocks = nil, nil
	return errors.Join(unix.SysvShmDetach(m.bytes), m.remove())
}

func (m *memory) remove() error {
	_, err := unix.SysvShmCtl(m.id, unix.IPC_RMID, nil)
	if err == unix.EINVAL || err == unix.EIDRM { // another agent has removed it
		return nil
	}
	return err
}

func (t *txBlock) clear(name string) {
	t.name = [nameSize]byte{}
	copy(t.name[:], name)
	atomic.StoreUint32(&t.counted, 0)
	t.reset()
}

// reset sets all but the count to its initial value.
func (t *txBlock) reset() {
	atomic.StoreUint32(&t.base, t.count())
	atomic.StoreUint64(&t.sumBits, math.Float64bits(0))
	atomic.StoreUint32(&t.maxBits, math.Float32bits(-1))
}

func (t *txBlock) count() uint32 { return atomic.LoadUint32(&t.counted) }

// resetCount returns the number of transactions since the last reset.
func (t *txBlock) resetCount() uint32 { return t.count() - atomic.LoadUint32(&t.base) }

// aveTime returns the average time since the last reset, in seconds; -1 if there were
// no transactions.
func (t *txBlock) aveTime() float64 {
	n := t.resetCount()
	if n == 0 {
		return -1
	}
	return math.Float64frombits(atomic.LoadUint64(&t.sumBits)) / float64(n)
}

func (t *txBlock) maxTime() float64 {
	return float64(math.Float32frombits(atomic.LoadUint32(&t.maxBits)))
}
