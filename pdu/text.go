package pdu

import "encoding/binary"

// TextKind is the kind of a help text, as bits (PM_TEXT_*, pmapi.h).
type TextKind int32

// A TextKind has one of the first two bits and one of the next two.
const (
	TextOneLine TextKind = 1
	TextHelp    TextKind = 2
	TextPMID    TextKind = 4
	TextInDom   TextKind = 8
	TextDirect  TextKind = 16 // has no effect in pmcd
)

// A TextReq requests the help text of a metric or an instance domain. The reply is a
// Text.
//
//	ident  uint32  // PMID or InDom
//	kind   int32
type TextReq struct {
	Ident uint32
	Kind  TextKind
}

// Type implements Message.
func (*TextReq) Type() Type { return TypeTextReq }

func (m *TextReq) append(e *encoder) {
	e.u32(m.Ident)
	e.i32(int32(m.Kind))
}

func (m *TextReq) parse(d *decoder) {
	m.Ident = d.u32()
	m.Kind = TextKind(d.i32())
}

// A Text is the reply to TextReq.
//
//	ident   uint32
//	buflen  int32
//	text    string  // padded
type Text struct {
	// Ident is in the byte order of the sender, because libpcp does not swap it:
	// see TextIdent. Clients ignore it, so pmcd relays that of the agent.
	Ident uint32
	Text  string
}

// TextIdent returns the Ident of the Text that libpcp sends for ident on a host with
// the byte order of this one.
func TextIdent(ident uint32) uint32 {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], ident)
	return binary.BigEndian.Uint32(b[:])
}

// Type implements Message.
func (*Text) Type() Type { return TypeText }

func (m *Text) append(e *encoder) {
	e.u32(m.Ident)
	e.i32(int32(len(m.Text)))
	e.str(m.Text)
}

func (m *Text) parse(d *decoder) {
	m.Ident = d.u32()
	m.Text = d.str(d.count(1))
}
