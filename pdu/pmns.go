package pdu

import "math"

// PMNSIDs is the reply to a PMNSNames that looks up names, or requests the names of
// one metric.
//
//	status  int32
//	numids  int32
//	ids     [numids]uint32
type PMNSIDs struct {
	// Status is the number of names found in a reply of pmcd, any number that is
	// not negative in a reply of an agent, and 0 in a request.
	Status int32
	PMIDs  []PMID // NoPMID for a name not found
}

// Type implements Message.
func (*PMNSIDs) Type() Type { return TypePMNSIDs }

func (m *PMNSIDs) append(e *encoder) {
	e.i32(m.Status)
	e.i32(int32(len(m.PMIDs)))
	e.pmids(m.PMIDs)
}

func (m *PMNSIDs) parse(d *decoder) {
	m.Status = d.i32()
	m.PMIDs = d.pmids(d.count(4))
}

// Status of a name in PMNSNames (PMNS_*_STATUS, pmapi.h).
const (
	LeafStatus    = 0
	NonLeafStatus = 1
)

// A Child is the last component of a name one level below another name.
type Child struct {
	Name string
	Leaf bool // the name of a metric
}

// PMNSNames requests the PMIDs of names. It also is the reply to PMNSIDs, PMNSChild and
// PMNSTraverse.
//
//	nstrbytes  int32  // bytes in all names, with a NUL for each
//	numstatus  int32  // 0 or numnames
//	numnames   int32  // or an error code
//	names      [numnames]{[status int32;] namelen int32; name string, padded}
type PMNSNames struct {
	Err    Errno // if negative, the other fields are empty
	Names  []string
	Status []int32 // LeafStatus or NonLeafStatus of each name, or nil
}

// Type implements Message.
func (*PMNSNames) Type() Type { return TypePMNSNames }

func (m *PMNSNames) append(e *encoder) {
	if m.Err != 0 {
		if m.Err > 0 || len(m.Names) > 0 || len(m.Status) > 0 {
			e.fail(ErrField)
		}
		e.i32(0)
		e.i32(0)
		e.i32(int32(m.Err))
		return
	}
	var nstrbytes, size int64
	for _, s := range m.Names {
		nstrbytes += int64(len(s)) + 1
		size += 4 + int64(pad4(len(s)))
	}
	least := 8
	if len(m.Status) > 0 {
		least = 12
		size += 4 * int64(len(m.Names))
	}
	switch {
	case len(m.Status) > 0 && len(m.Status) != len(m.Names):
		e.fail(ErrCount)
	case size < int64(least)*int64(len(m.Names)): // too many empty names: see parse
		e.fail(ErrCount)
	case nstrbytes > math.MaxInt32:
		e.fail(ErrTooLong)
	}
	if e.err != nil {
		return
	}
	e.i32(int32(nstrbytes))
	e.i32(int32(len(m.Status)))
	e.i32(int32(len(m.Names)))
	for i, s := range m.Names {
		if len(m.Status) > 0 {
			e.i32(m.Status[i])
		}
		e.i32(int32(len(s)))
		e.str(s)
	}
}

func (m *PMNSNames) parse(d *decoder) {
	*m = PMNSNames{}
	nstrbytes, numstatus, n := d.i32(), d.i32(), d.i32()
	if n < 0 {
		m.Err = Errno(n)
		return
	}
	// libpcp requires 8 bytes for each name, so a single empty name is refused.
	least := 8
	if numstatus != 0 {
		least = 12
	}
	names := d.checkCount(n, least)
	if numstatus != 0 && numstatus != n {
		d.fail(ErrCount)
	}
	if d.err != nil {
		return
	}
	m.Names = alloc[string](names)
	if numstatus != 0 {
		m.Status = alloc[int32](names)
	}
	// One copy for all names: there may be thousands.
	start := d.off
	text := string(d.b[start:])
	need := 0
	for i := range m.Names {
		if numstatus != 0 {
			m.Status[i] = d.i32()
		}
		n := d.count(1)
		from := d.off - start
		if d.bytes(n); d.err != nil {
			return
		}
		d.bytes(pad4(n) - n)
		m.Names[i] = text[from : from+n]
		need += n + 1
	}
	// Receivers allocate a buffer of nstrbytes.
	if int(nstrbytes) < need || int(nstrbytes) > len(d.b) {
		d.fail(ErrLength)
	}
}

// A PMNSChild requests the names one level below a name. The reply is a PMNSNames with
// the last components of the names.
//
//	subtype  int32
//	namelen  int32
//	name     string  // padded
type PMNSChild struct {
	Subtype int32 // if not 0, the reply has Status
	Name    string
}

// Type implements Message.
func (*PMNSChild) Type() Type { return TypePMNSChild }

func (m *PMNSChild) append(e *encoder) {
	e.i32(m.Subtype)
	e.i32(int32(len(m.Name)))
	e.str(m.Name)
}

func (m *PMNSChild) parse(d *decoder) {
	m.Subtype = d.i32()
	m.Name = d.str(d.count(1))
	d.skip()
}

// A PMNSTraverse requests the names of all metrics below a name. The reply is a
// PMNSNames with full names.
//
//	subtype  int32   // 0
//	namelen  int32
//	name     string  // padded
type PMNSTraverse struct {
	Name string
}

// Type implements Message.
func (*PMNSTraverse) Type() Type { return TypePMNSTraverse }

func (m *PMNSTraverse) append(e *encoder) {
	e.i32(0)
	e.i32(int32(len(m.Name)))
	e.str(m.Name)
}

func (m *PMNSTraverse) parse(d *decoder) {
	d.i32()
	m.Name = d.str(d.count(1))
	d.skip()
}
