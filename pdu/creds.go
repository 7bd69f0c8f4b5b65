package pdu

// maxCreds is the number of credentials that libpcp accepts in one PDU.
const maxCreds = 1024

// Creds opens a connection: each side sends its protocol version and the features
// that it requests.
//
//	numcreds  int32          // 1 to 1024
//	creds     [numcreds]Cred
type Creds struct {
	Creds []Cred
}

// A Cred is one credential: 8 bits of kind, 8 of version and 16 of Features,
// from the most significant bit down (__pmCred, libpcp.h).
type Cred uint32

// CredVersion is the only kind of credential there is (CVERSION, libpcp.h).
const CredVersion = 1

// VersionCred returns the Cred for protocol version 2 with the given features.
func VersionCred(flags Features) Cred {
	return CredVersion<<24 | ProtocolVersion<<16 | Cred(flags)
}

// Kind returns the kind of c. Receivers ignore kinds other than CredVersion.
func (c Cred) Kind() int { return int(c >> 24) }

// Version returns the protocol version; 0 is none.
func (c Cred) Version() int { return int(c>>16) & 0xff }

// Flags returns the features.
func (c Cred) Flags() Features { return Features(c) }

// Type implements Message.
func (*Creds) Type() Type { return TypeCreds }

func (m *Creds) append(e *encoder) {
	if len(m.Creds) < 1 || len(m.Creds) > maxCreds {
		e.fail(ErrCount)
		return
	}
	e.i32(int32(len(m.Creds)))
	for _, c := range m.Creds {
		e.u32(uint32(c))
	}
}

func (m *Creds) parse(d *decoder) {
	n := d.count(4)
	if n < 1 || n > maxCreds {
		d.fail(ErrCount)
		return
	}
	m.Creds = make([]Cred, n)
	for i := range m.Creds {
		m.Creds[i] = Cred(d.u32())
	}
}
