package pdu

// An InstanceReq requests instances of an instance domain: all instances (NoInst and
// no name), the instance with a name (NoInst), or the name of an instance. The reply
// is an Instance.
//
//	indom    uint32
//	when     [2]int32  // 0; a time, once
//	inst     int32
//	namelen  int32
//	name     string    // padded
type InstanceReq struct {
	InDom InDom
	Inst  int32
	Name  string
}

// Type implements Message.
func (*InstanceReq) Type() Type { return TypeInstanceReq }

func (m *InstanceReq) append(e *encoder) {
	e.u32(uint32(m.InDom))
	e.i64(0)
	e.i32(m.Inst)
	e.i32(int32(len(m.Name)))
	e.str(m.Name)
}

func (m *InstanceReq) parse(d *decoder) {
	m.InDom = InDom(d.u32())
	d.i64()
	m.Inst = d.i32()
	m.Name = d.str(d.count(1))
}

// An Instance is the reply to InstanceReq.
//
//	indom    uint32
//	numinst  int32
//	insts    [numinst]{inst, namelen int32; name string, padded}
type Instance struct {
	InDom InDom
	Insts []Inst
}

// An Inst is one instance. The reply to a request for one instance has either ID or
// Name: to a request with a name it has the ID, and to one with an ID the Name. The
// other is "" or NoInst.
type Inst struct {
	ID   int32
	Name string
}

// Type implements Message.
func (*Instance) Type() Type { return TypeInstance }

func (m *Instance) append(e *encoder) {
	e.u32(uint32(m.InDom))
	e.i32(int32(len(m.Insts)))
	for _, in := range m.Insts {
		e.i32(in.ID)
		e.i32(int32(len(in.Name)))
		e.str(in.Name)
	}
}

func (m *Instance) parse(d *decoder) {
	m.InDom = InDom(d.u32())
	m.Insts = alloc[Inst](d.count(8))
	for i := range m.Insts {
		m.Insts[i].ID = d.i32()
		m.Insts[i].Name = d.str(d.count(1))
	}
}
