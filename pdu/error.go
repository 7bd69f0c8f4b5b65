package pdu

// An Error is an error code. It also is pmcd's greeting, the reply to a store that
// succeeded, a notice of state changes, and the notice to an agent that a client
// is gone.
//
//	code  int32   // 0, a negative Errno or a positive mask of State bits
//	info  uint32  // only in a greeting
type Error struct {
	Code Errno

	// Greeting is true for the first PDU on a connection from pmcd to a client.
	// Then Code is a result of GreetingCode, and Info has the features of pmcd.
	Greeting bool
	Info     uint32 // see GreetingInfo
}

// Type implements Message.
func (*Error) Type() Type { return TypeError }

func (m *Error) append(e *encoder) {
	e.i32(int32(m.Code))
	if m.Greeting {
		e.u32(m.Info)
	}
}

func (m *Error) parse(d *decoder) {
	*m = Error{Code: Errno(d.i32())}
	// The length alone tells a greeting from an error.
	if d.left() > 0 {
		m.Greeting = true
		m.Info = d.u32()
	}
}

// Features are the PDU_FLAG_* bits (libpcp.h): in a greeting those that pmcd
// offers, in Creds those that its peer requests.
type Features uint16

// Feature bits.
const (
	FeatureSecure    Features = 1 << iota // TLS
	FeatureCompress                       // retired, always refused
	FeatureAuth                           // SASL; from an agent: send client attributes
	FeatureCredsReqd                      // authentication is required
	FeatureSecureAck                      // with FeatureSecure: acknowledge before TLS starts
	FeatureNoNSSInit                      // internal to clients, never sent
	FeatureContainer                      // an Attr names a container; from an agent as FeatureAuth
	FeatureCertReqd                       // a client certificate is required
	FeatureBadLabel                       // LABEL as PCP 4.0.0 wrote it, never sent
	FeatureLabels                         // LABEL_REQ; greeting only, as those below
	FeatureHighRes                        // HIGHRES_FETCH
	FeatureDescs                          // DESC_IDS
)

// ProtocolVersion is the version of the protocol (PDU_VERSION2).
const ProtocolVersion = 2

// GreetingInfo returns the Info of a greeting: version 2, licence 1 and the
// features that pmcd offers.
func GreetingInfo(flags Features) uint32 { return ProtocolVersion<<24 | 1<<16 | uint32(flags) }

// v1Offset is the distance of version 1 error codes from today's.
const v1Offset = 11345

// GreetingCode returns code as a greeting carries it: in the numbers of protocol
// version 1, for clients that know that version only. Other PDUs do not use these
// numbers.
func GreetingCode(code Errno) Errno {
	if code <= ErrnoGeneric {
		return code + v1Offset
	}
	return code
}

// FromGreetingCode is the inverse of GreetingCode.
func FromGreetingCode(code Errno) Errno {
	if code <= -1000 {
		return code - v1Offset
	}
	return code
}

// State changes (PMCD_*_AGENT and so on, pmapi.h). pmcd sends them, or-ed, as the
// positive code of an Error before the reply to a fetch. Agents send
// StateLabelChange and StateNamesChange in the seconds of a Result.
const (
	StateAddAgent     = 1 << iota // an agent was started
	StateRestartAgent             // an agent that was there before was started
	StateDropAgent                // an agent is gone
	StateLabelChange              // metric labels have changed
	StateNamesChange              // the name space has changed
	StateHostname                 // the host has another name
)
