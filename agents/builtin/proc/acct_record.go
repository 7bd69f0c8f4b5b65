package proc

import (
	"bytes"
	"encoding/binary"
	"math"
	"time"
)

// acctSize is the length of a record of process accounting, in bytes.
const acctSize = 64

// Flags of a record (linux/acct.h): AFORK, ASU, ACORE, AXSIG.
const (
	acctFork = 0x01
	acctSU   = 0x02
	acctCore = 0x08
	acctXSig = 0x10
)

// Indexes into acctRecord.counters, which the kernel writes as comp_t.
const (
	acctUtime = iota // in ticks, as is acctStime
	acctStime
	acctMem // in KiB
	acctIO
	acctRW
	acctMinflt
	acctMajflt
	acctSwaps
	acctNums
)

// An acctRecord is the kernel's record of a process that has ended: struct
// acct_v3, acct(5), in the byte order of the host.
type acctRecord struct {
	flags    byte
	tty      uint16
	exitcode uint32
	uid, gid uint32
	pid      int32 // above 0
	ppid     uint32
	btime    uint32    // when it was started, in seconds since 1970
	etime    float32   // elapsed time, in ticks
	end      time.Time // when it ended, if the clock was right when the record was read
	counters [acctNums]uint64
	comm     string
}

// parseAcct parses a record. It returns false for a version other than 3 and for
// the other byte order.
func parseAcct(b []byte) (r acctRecord, ok bool) {
	const bigEndian = 0x80 // ACCT_BYTEORDER
	order := binary.NativeEndian
	version := byte(3)
	if order.Uint16([]byte{0, 1}) == 1 {
		version |= bigEndian
	}
	if len(b) < acctSize || b[1] != version {
		return r, false
	}
	r = acctRecord{
		flags:    b[0],
		tty:      order.Uint16(b[2:]),
		exitcode: order.Uint32(b[4:]),
		uid:      order.Uint32(b[8:]),
		gid:      order.Uint32(b[12:]),
		pid:      int32(order.Uint32(b[16:])),
		ppid:     order.Uint32(b[20:]),
		btime:    order.Uint32(b[24:]),
		etime:    math.Float32frombits(order.Uint32(b[28:])),
	}
	for i := range r.counters {
		r.counters[i] = decodeCompT(order.Uint16(b[32+2*i:]))
	}
	comm, _, _ := bytes.Cut(b[48:acctSize], []byte{0})
	r.comm = string(cleanArgs(bytes.Clone(comm)))
	return r, true
}

// decodeCompT decodes a comp_t, acct(5): a floating-point number with a mantissa
// of 13 bits and, above it, an exponent of 3 bits to base 8.
func decodeCompT(c uint16) uint64 { return uint64(c&0x1fff) << (3 * (c >> 13)) }

// ended returns when the process ended, in seconds since 1970.
func (r *acctRecord) ended(hertz uint64) int64 {
	t := float64(r.etime) / float64(hertz)
	if !(t >= 0 && t <= math.MaxUint32) { // true for NaN, too
		t = 0
	}
	return int64(r.btime) + int64(t)
}
