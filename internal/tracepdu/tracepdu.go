// Package tracepdu has the PDUs between an application and the agent trace, those of
// libpcp_trace (pmdatrace(3)). All numbers are big endian.
//
//	length  int32   bytes, with this header
//	type    int32   ACK or DATA
//	pid     int32   of the sender
//
// An ACK is followed by one int32: the version of the protocol when the agent greets a
// client, the Kind of the DATA that it acknowledges, or an error. DATA is followed by
//
//	version uint8   1
//	taglen  uint8   bytes of the tag, with a NUL
//	kind    uint8
//	flags   uint8   Sync: the client waits for an ACK
//	value   float64
//	tag     taglen bytes, and '~' up to a multiple of four
package tracepdu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// Types of PDUs.
const (
	TypeACK  = 0x7050
	TypeData = 0x7051
)

// Version is the version of the protocol.
const Version = 1

// Port is the port that the agent listens at by default.
const Port = 4323

// A Kind is the kind of what was measured.
type Kind uint8

// The values of a Transaction are seconds. The value of a Point has no meaning.
const (
	Transaction Kind = 1 + iota
	Point
	Observation
	Counter
)

const (
	// MaxTag is the number of bytes of the longest tag that agents accept.
	MaxTag = 124

	// HeaderLen and ACKLen are the lengths of the header, and of an ACK.
	HeaderLen = 12
	ACKLen    = 16
	// MaxLen is the length of the longest PDU that agents accept.
	MaxLen = 272

	dataLen = HeaderLen + 12 // of DATA without the tag
	sync    = 0x80           // flag
)

// Errors in place of a version or a Kind in an ACK. The agent closes the connection.
const (
	ErrPermission = -12010
	ErrConnLimit  = -12011
)

// A Data is the content of a DATA PDU.
type Data struct {
	Kind  Kind
	Sync  bool // the client waits for an ACK
	Value float64
	Tag   string
}

// AppendACK appends an ACK to b.
func AppendACK(b []byte, pid, n int32) []byte {
	b = appendHeader(b, ACKLen, TypeACK, pid)
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

// AppendData appends DATA to b. The tag has at most MaxTag bytes and no NUL.
func AppendData(b []byte, pid int32, d Data) []byte {
	tagLen := len(d.Tag) + 1
	padded := (tagLen + 3) &^ 3
	b = appendHeader(b, dataLen+padded, TypeData, pid)
	flags := byte(0)
	if d.Sync {
		flags = sync
	}
	b = append(b, Version, byte(tagLen), byte(d.Kind), flags)
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(d.Value))
	b = append(append(b, d.Tag...), 0)
	for range padded - tagLen {
		b = append(b, '~')
	}
	return b
}

func appendHeader(b []byte, length int, typ, pid int32) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(length))
	b = binary.BigEndian.AppendUint32(b, uint32(typ))
	return binary.BigEndian.AppendUint32(b, uint32(pid))
}

// Length returns the length that a header states. It is an error if no PDU has it.
func Length(header []byte) (int, error) {
	n := int32(binary.BigEndian.Uint32(header))
	if n < ACKLen || n > MaxLen {
		return 0, fmt.Errorf("illegal PDU length %d", n)
	}
	return int(n), nil
}

// ParseACK returns the number in an ACK, a PDU with the length of its header.
func ParseACK(b []byte) (int32, error) {
	if typ := pduType(b); typ != TypeACK || len(b) != ACKLen {
		return 0, fmt.Errorf("not an ACK: a PDU of type %#x with %d bytes", typ, len(b))
	}
	return int32(binary.BigEndian.Uint32(b[HeaderLen:])), nil
}

// ParseData parses a PDU of a client, which has the length of its header. tag is the tag,
// as part of b; Data.Tag is not set, so that there is no need to allocate.
func ParseData(b []byte) (d Data, tag []byte, err error) {
	if typ := pduType(b); typ != TypeData {
		return d, nil, fmt.Errorf("unexpected PDU of type %#x", typ)
	}
	if len(b) < dataLen {
		return d, nil, fmt.Errorf("DATA has only %d bytes", len(b))
	}
	version, tagLen, kind, flags := b[12], int(b[13]), Kind(b[14]), b[15]
	switch {
	case version != Version:
		return d, nil, fmt.Errorf("version %d of the protocol is not supported", version)
	case kind < Transaction || kind > Counter:
		return d, nil, fmt.Errorf("unknown tag type %d", kind)
	case tagLen < 1 || tagLen > MaxTag+1 || dataLen+tagLen > len(b):
		return d, nil, fmt.Errorf("tag of %d bytes in a PDU of %d bytes", tagLen, len(b))
	}
	d = Data{Kind: kind, Sync: flags&sync != 0, Value: math.Float64frombits(binary.BigEndian.Uint64(b[16:]))}
	tag, _, _ = bytes.Cut(b[dataLen:dataLen+tagLen], []byte{0})
	return d, tag, nil
}

func pduType(b []byte) int32 { return int32(binary.BigEndian.Uint32(b[4:])) }
