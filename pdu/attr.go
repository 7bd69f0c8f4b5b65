package pdu

import "strconv"

// AttrCode names an attribute of a client (PCP_ATTR_*, libpcp.h).
type AttrCode int32

// Attributes in PDUs.
const (
	AttrNone      AttrCode = 0 // SASL data
	AttrUserName  AttrCode = 5
	AttrUserID    AttrCode = 11 // decimal
	AttrGroupID   AttrCode = 12 // decimal
	AttrProcessID AttrCode = 14 // decimal
	AttrContainer AttrCode = 15
)

// String returns the name of c, such as userid.
func (c AttrCode) String() string {
	switch c {
	case AttrNone:
		return "none"
	case AttrUserName:
		return "username"
	case AttrUserID:
		return "userid"
	case AttrGroupID:
		return "groupid"
	case AttrProcessID:
		return "processid"
	case AttrContainer:
		return "container"
	}
	return "attr-" + strconv.Itoa(int(c))
}

// Longest values of Attr, in bytes (LIMIT_AUTH_PDU, LIMIT_ATTR_PDU, libpcp.h).
const (
	maxSASL = 2048 - 1
	maxAttr = 4096 - 1
)

// An Attr is an attribute of a client, or a step of SASL authentication.
//
//	code   int32
//	value  []byte  // up to the end, without padding
//
// A value to an agent ends in a NUL; a value from a client does not.
type Attr struct {
	Code  AttrCode
	Value []byte
}

// Type implements Message.
func (*Attr) Type() Type { return TypeAttr }

func (m *Attr) max() int {
	if m.Code == AttrNone {
		return maxSASL
	}
	return maxAttr
}

func (m *Attr) append(e *encoder) {
	if len(m.Value) > m.max() {
		e.fail(ErrTooLong)
	}
	e.i32(int32(m.Code))
	e.b = append(e.b, m.Value...)
}

func (m *Attr) parse(d *decoder) {
	m.Code = AttrCode(d.i32())
	if d.left() > m.max() {
		d.fail(ErrTooLong)
	}
	m.Value = d.bytes(d.left())
}
