package pdu

// LabelKind is the kind of object that labels describe (PM_LABEL_*, pmapi.h). The
// Flags of each Label contain it, too, with the flags below.
type LabelKind int32

// Kinds of labels. A LabelReq names exactly one.
const (
	LabelContext   LabelKind = 1 << iota // the host; Ident is ignored
	LabelDomain                          // an agent; Ident is the domain number
	LabelInDom                           // an instance domain
	LabelCluster                         // a cluster of metrics; Ident is a PMID, its item without meaning
	LabelItem                            // a metric
	LabelInstances                       // the instances of an instance domain, each by itself
)

// Flags of labels.
const (
	LabelCompound LabelKind = 0x40 // name with dots, value inside an object
	LabelOptional LabelKind = 0x80 // not part of what identifies a metric
)

// String returns the name of the kind that k contains.
func (k LabelKind) String() string {
	switch k &^ (LabelCompound | LabelOptional) {
	case LabelContext:
		return "context"
	case LabelDomain:
		return "domain"
	case LabelInDom:
		return "indom"
	case LabelCluster:
		return "cluster"
	case LabelItem:
		return "item"
	case LabelInstances:
		return "instances"
	}
	return "unknown"
}

// A LabelReq asks for labels. The reply is a Labels.
//
//	ident  uint32
//	kind   int32
type LabelReq struct {
	Ident uint32
	Kind  LabelKind
}

// Type implements Message.
func (*LabelReq) Type() Type { return TypeLabelReq }

func (m *LabelReq) append(e *encoder) {
	e.u32(m.Ident)
	e.i32(int32(m.Kind))
}

func (m *LabelReq) parse(d *decoder) {
	m.Ident = d.u32()
	m.Kind = LabelKind(d.i32())
}

// Labels is the LABEL PDU, the reply to LabelReq.
//
//	ident  uint32  // as in the request
//	kind   int32   // as in the request
//	pad    int32
//	nsets  int32
//	sets   [nsets]{inst, nlabels, jsonoff, jsonlen int32; labels [nlabels]Label}
//	json   []byte  // of all sets, in turn, without padding
//
// where jsonoff counts from the start of the PDU, and nlabels may be an error.
type Labels struct {
	Ident uint32 // must be that of the request bit for bit, and Kind too
	Kind  LabelKind
	Sets  []LabelSet // none if there are no labels
}

// A LabelSet holds the labels of one object.
type LabelSet struct {
	Inst   int32   // of LabelInstances; else NoInst
	Err    Errno   // if negative, Labels is empty
	JSON   []byte  // an object such as {"a":1,"b":"x"}; aliases the PDU
	Labels []Label // where in JSON the members are
}

// A Label is one member of the JSON of a set.
//
//	name       uint16  // offset in JSON, behind the quote
//	namelen    uint8   // without quotes
//	flags      uint8
//	value      uint16  // offset in JSON
//	valuelen   uint16  // quotes included
type Label struct {
	Name     uint16
	NameLen  uint8
	Flags    uint8 // LabelKind bits
	Value    uint16
	ValueLen uint16
}

// Limits of a set (PM_MAXLABELS, PM_MAXLABELJSONLEN, pmapi.h).
const (
	maxLabels    = 255 - 1
	maxLabelJSON = 65535 - 1 // bytes
)

const (
	labelSetLen = 16
	labelLen    = 8
)

// Type implements Message.
func (*Labels) Type() Type { return TypeLabel }

func (m *Labels) append(e *encoder) {
	e.u32(m.Ident)
	e.i32(int32(m.Kind))
	e.i32(0)
	e.i32(int32(len(m.Sets)))
	next := int64(HeaderLen + 16)
	for i := range m.Sets {
		next += labelSetLen + labelLen*int64(len(m.Sets[i].Labels))
	}
	for i := range m.Sets {
		s := &m.Sets[i]
		if err := s.check(); err != nil {
			e.fail(err)
			return
		}
		e.i32(s.Inst)
		if s.Err < 0 {
			e.i32(int32(s.Err))
		} else {
			e.i32(int32(len(s.Labels)))
		}
		// Even a set without JSON has an offset: libpcp takes the end of the last
		// JSON for the end of the PDU.
		e.i32(int32(next))
		e.i32(int32(len(s.JSON)))
		next += int64(len(s.JSON))
		for _, l := range s.Labels {
			e.u32(uint32(l.Name)<<16 | uint32(l.NameLen)<<8 | uint32(l.Flags))
			e.u32(uint32(l.Value)<<16 | uint32(l.ValueLen))
		}
	}
	for i := range m.Sets {
		e.b = append(e.b, m.Sets[i].JSON...)
	}
}

func (m *Labels) parse(d *decoder) {
	*m = Labels{Ident: d.u32(), Kind: LabelKind(d.i32())}
	d.i32()
	m.Sets = alloc[LabelSet](d.count(labelSetLen))

	// A set has the offset of its JSON before the place of the first JSON is known.
	type span struct{ off, n int32 }
	spans := alloc[span](len(m.Sets))
	for i := range m.Sets {
		s := &m.Sets[i]
		s.Inst = d.i32()
		n := d.i32()
		spans[i] = span{d.i32(), d.i32()}
		if n < 0 {
			s.Err = Errno(n)
			continue
		}
		if n > maxLabels {
			d.fail(ErrCount)
		}
		s.Labels = alloc[Label](d.checkCount(n, labelLen))
		for j := range s.Labels {
			name, value := d.u32(), d.u32()
			s.Labels[j] = Label{
				Name: uint16(name >> 16), NameLen: uint8(name >> 8), Flags: uint8(name),
				Value: uint16(value >> 16), ValueLen: uint16(value),
			}
		}
	}
	for i, sp := range spans {
		switch {
		case d.err != nil:
			return
		case sp.n < 0 || sp.n > maxLabelJSON:
			d.fail(ErrCount)
		case sp.off < 0 || int(sp.off) > len(d.b) || sp.n > 0 && int(sp.off) != d.off:
			d.fail(ErrOffset)
		case sp.n > 0:
			m.Sets[i].JSON = d.bytes(int(sp.n))
		}
		if err := m.Sets[i].check(); err != nil {
			d.fail(err)
		}
	}
	if d.left() < 4 { // libpcp accepts these bytes, too
		d.skip()
	}
}

// check returns an error if s cannot be encoded.
func (s *LabelSet) check() error {
	switch {
	case len(s.JSON) > maxLabelJSON:
		return ErrTooLong
	case len(s.Labels) > maxLabels:
		return ErrCount
	case s.Err > 0 || s.Err < 0 && len(s.Labels) > 0:
		return ErrField
	}
	for _, l := range s.Labels {
		if int(l.Name)+int(l.NameLen) > len(s.JSON) || int(l.Value)+int(l.ValueLen) > len(s.JSON) {
			return ErrOffset
		}
	}
	return nil
}

// Name returns the name of a label of s.
func (s *LabelSet) Name(l Label) string { return string(s.JSON[l.Name:][:l.NameLen]) }

// Value returns the value of a label of s, which is JSON. It aliases s.
func (s *LabelSet) Value(l Label) []byte { return s.JSON[l.Value:][:l.ValueLen] }
