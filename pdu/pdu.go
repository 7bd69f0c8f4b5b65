package pdu

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gopcp/pmcd/internal/pduformat"
)

// Type is a PDU type code. The values are from libpcp.h (PDU_*).
type Type int32

// PDU types. 0x700b is a hole.
const (
	TypeError         Type = 0x7000
	TypeResult        Type = 0x7001
	TypeProfile       Type = 0x7002
	TypeFetch         Type = 0x7003
	TypeDescReq       Type = 0x7004
	TypeDesc          Type = 0x7005
	TypeInstanceReq   Type = 0x7006
	TypeInstance      Type = 0x7007
	TypeTextReq       Type = 0x7008
	TypeText          Type = 0x7009
	TypeControlReq    Type = 0x700a // no longer used
	TypeCreds         Type = 0x700c
	TypePMNSIDs       Type = 0x700d
	TypePMNSNames     Type = 0x700e
	TypePMNSChild     Type = 0x700f
	TypePMNSTraverse  Type = 0x7010
	TypeAttr          Type = 0x7011 // also called AUTH
	TypeLabelReq      Type = 0x7012
	TypeLabel         Type = 0x7013
	TypeHighResFetch  Type = 0x7014
	TypeHighResResult Type = 0x7015
	TypeDescIDs       Type = 0x7016
	TypeDescs         Type = 0x7017
)

var typeNames = [...]string{
	"ERROR", "RESULT", "PROFILE", "FETCH", "DESC_REQ", "DESC", "INSTANCE_REQ", "INSTANCE",
	"TEXT_REQ", "TEXT", "CONTROL_REQ", "", "CREDS", "PMNS_IDS", "PMNS_NAMES", "PMNS_CHILD",
	"PMNS_TRAVERSE", "ATTR", "LABEL_REQ", "LABEL", "HIGHRES_FETCH", "HIGHRES_RESULT", "DESC_IDS", "DESCS",
}

// String returns the name PCP gives t, without its prefix, such as FETCH.
func (t Type) String() string {
	if i := t - TypeError; i >= 0 && int(i) < len(typeNames) && typeNames[i] != "" {
		return typeNames[i]
	}
	return fmt.Sprintf("TYPE-%#x", uint32(t))
}

// HeaderLen is the length of a PDU header, in bytes.
const HeaderLen = pduformat.HeaderLen

// A Message is the body of one PDU. It is implemented only in this package.
type Message interface {
	// Type returns the type of PDU that carries the message.
	Type() Type

	// append appends the body to e.b.
	append(e *encoder)
	// parse reads the body from d, which has read the header.
	parse(d *decoder)
}

// Append appends m to b as a whole PDU sent by from. If it fails, it returns b
// unchanged.
//
// Append does not allocate for a Fetch or HighResFetch if b has room for it.
func Append(b []byte, from int32, m Message) ([]byte, error) {
	// An encoder escapes to the heap as a decoder does: see ParseInto.
	switch m := m.(type) {
	case *Fetch:
		e := encoder{b: b}
		e.header(m.Type(), from)
		m.append(&e)
		return e.done(b, m.Type())
	case *HighResFetch:
		e := encoder{b: b}
		e.header(m.Type(), from)
		m.append(&e)
		return e.done(b, m.Type())
	}
	e := encoder{b: b}
	e.header(m.Type(), from)
	m.append(&e)
	return e.done(b, m.Type())
}

// Parse decodes the whole PDU b, header included, and returns its sender and
// message. The message aliases b: it is valid as long as b is unchanged. All
// errors are of type [*ParseError].
//
// Parse needs the header because the offsets of value blocks in a Result count words
// from the start of the PDU.
func Parse(b []byte) (from int32, m Message, err error) {
	_, t, _ := Header(b)
	if m = newMessage(t); m == nil {
		m = unknown(t)
	}
	if from, err = ParseInto(b, m); err != nil {
		return 0, nil, err
	}
	return from, m, nil
}

// ParseInto is Parse for a PDU of known type. For a Fetch or HighResFetch it reuses
// the memory of m.PMIDs, and for a Result or HighResResult that of m.Sets and of their
// Values, and does not allocate if that suffices. For other messages it allocates memory.
func ParseInto(b []byte, m Message) (from int32, err error) {
	// A decoder that is passed to an interface method escapes to the heap. So the
	// methods of the most frequent requests are called directly.
	switch m := m.(type) {
	case *Fetch:
		d := decoder{b: b}
		if from = d.header(TypeFetch); d.err == nil {
			m.parse(&d)
		}
		return d.done(from)
	case *HighResFetch:
		d := decoder{b: b}
		if from = d.header(TypeHighResFetch); d.err == nil {
			m.parse(&d)
		}
		return d.done(from)
	case *Result:
		d := decoder{b: b}
		if from = d.header(TypeResult); d.err == nil {
			m.parse(&d)
		}
		return d.done(from)
	case *HighResResult:
		d := decoder{b: b}
		if from = d.header(TypeHighResResult); d.err == nil {
			m.parse(&d)
		}
		return d.done(from)
	}
	d := decoder{b: b}
	if from = d.header(m.Type()); d.err == nil {
		m.parse(&d)
	}
	return d.done(from)
}

// Header returns the three words that every PDU starts with, or zeros if b is
// shorter than they are.
func Header(b []byte) (n int32, t Type, from int32) {
	if len(b) < HeaderLen {
		return 0, 0, 0
	}
	return int32(binary.BigEndian.Uint32(b)),
		Type(binary.BigEndian.Uint32(b[4:])),
		int32(binary.BigEndian.Uint32(b[8:]))
}

// unknown is the Message of a type this package does not know.
type unknown Type

func (m unknown) Type() Type        { return Type(m) }
func (m unknown) append(e *encoder) { e.fail(ErrUnknownType) }
func (m unknown) parse(d *decoder)  { d.fail(ErrUnknownType) }

func newMessage(t Type) Message {
	switch t {
	case TypeError:
		return new(Error)
	case TypeResult:
		return new(Result)
	case TypeProfile:
		return new(Profile)
	case TypeFetch:
		return new(Fetch)
	case TypeDescReq:
		return new(DescReq)
	case TypeDesc:
		return new(Desc)
	case TypeInstanceReq:
		return new(InstanceReq)
	case TypeInstance:
		return new(Instance)
	case TypeTextReq:
		return new(TextReq)
	case TypeText:
		return new(Text)
	case TypeCreds:
		return new(Creds)
	case TypePMNSIDs:
		return new(PMNSIDs)
	case TypePMNSNames:
		return new(PMNSNames)
	case TypePMNSChild:
		return new(PMNSChild)
	case TypePMNSTraverse:
		return new(PMNSTraverse)
	case TypeAttr:
		return new(Attr)
	case TypeLabelReq:
		return new(LabelReq)
	case TypeLabel:
		return new(Labels)
	case TypeHighResFetch:
		return new(HighResFetch)
	case TypeHighResResult:
		return new(HighResResult)
	case TypeDescIDs:
		return new(DescIDs)
	case TypeDescs:
		return new(Descs)
	}
	return nil
}

// Reasons for which a PDU is refused. A [ParseError] wraps them.
var (
	ErrShort       = errors.New("field runs past the end")
	ErrLength      = errors.New("length does not fit the content")
	ErrTooLong     = errors.New("longer than the limit")
	ErrCount       = errors.New("count out of range")
	ErrOffset      = errors.New("offset out of range")
	ErrField       = errors.New("field out of range")
	ErrUnknownType = errors.New("unknown type")
	ErrPMID        = errors.New("not the metric asked for")
)

// A ParseError has the type of a PDU and the offset at which decoding or encoding
// it failed.
type ParseError struct {
	Type Type  // 0 if it was not read
	Off  int   // bytes read, from the start of the PDU
	Err  error // one of the Err variables
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("%v PDU: byte %d: %v", e.Type, e.Off, e.Err)
}

func (e *ParseError) Unwrap() error { return e.Err }
