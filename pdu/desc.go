package pdu

// A DescReq asks for the descriptor of one metric. The reply is a Desc.
//
//	pmid  uint32
type DescReq struct{ PMID PMID }

// Type implements Message.
func (*DescReq) Type() Type { return TypeDescReq }

func (m *DescReq) append(e *encoder) { e.u32(uint32(m.PMID)) }
func (m *DescReq) parse(d *decoder)  { m.PMID = PMID(d.u32()) }

// A Desc describes the values of a metric (pmDesc, pmLookupDesc(3)).
//
//	pmid   uint32
//	type   int32
//	indom  uint32
//	sem    int32
//	units  uint32
type Desc struct {
	PMID      PMID
	ValueType MetricType
	InDom     InDom // or NoInDom
	Sem       Sem
	Units     Units
}

const descLen = 20

// Type implements Message.
func (*Desc) Type() Type { return TypeDesc }

func (m *Desc) append(e *encoder) {
	e.u32(uint32(m.PMID))
	e.i32(int32(m.ValueType))
	e.u32(uint32(m.InDom))
	e.i32(int32(m.Sem))
	e.u32(uint32(m.Units))
}

func (m *Desc) parse(d *decoder) {
	m.PMID = PMID(d.u32())
	m.ValueType = MetricType(d.i32())
	m.InDom = InDom(d.u32())
	m.Sem = Sem(d.i32())
	m.Units = Units(d.u32())
}

// A DescIDs asks for the descriptors of metrics. The reply is a Descs.
//
//	status  int32            // -1
//	numids  int32            // at least 1
//	ids     [numids]uint32
type DescIDs struct {
	PMIDs []PMID
}

// Type implements Message.
func (*DescIDs) Type() Type { return TypeDescIDs }

func (m *DescIDs) append(e *encoder) {
	if len(m.PMIDs) == 0 {
		e.fail(ErrCount)
	}
	e.i32(-1)
	e.i32(int32(len(m.PMIDs)))
	e.pmids(m.PMIDs)
}

func (m *DescIDs) parse(d *decoder) {
	if d.i32() != -1 {
		d.fail(ErrField)
	}
	n := d.count(4)
	if n == 0 {
		d.fail(ErrCount)
	}
	m.PMIDs = d.pmids(n)
}

// Descs is the reply to DescIDs, in the order of its PMIDs.
//
//	numdescs  int32
//	descs     [numdescs]Desc
type Descs struct {
	// For a metric without descriptor, the Desc has NoPMID and is zero otherwise.
	Descs []Desc
}

// Type implements Message.
func (*Descs) Type() Type { return TypeDescs }

func (m *Descs) append(e *encoder) {
	e.i32(int32(len(m.Descs)))
	for i := range m.Descs {
		m.Descs[i].append(e)
	}
}

func (m *Descs) parse(d *decoder) {
	m.Descs = alloc[Desc](d.count(descLen))
	for i := range m.Descs {
		m.Descs[i].parse(d)
	}
}
