// Package relay passes results and names on from agents to clients without decoding them: it
// checks the RESULT of an agent, makes other PDUs of it in place, and joins those of several agents.
// What it changes are the lengths, times and offsets that package pduformat describes.
package relay

import (
	"encoding/binary"

	"github.com/gopcp/pmcd/internal/pduformat"
	"github.com/gopcp/pmcd/pdu"
)

// CheckResult checks that b is a valid Result PDU and the reply to a Fetch of ids.
// It makes the same checks as pdu.Parse, but does not allocate. A PDU without an error
// can be relayed unchanged, or after ToHighRes. All errors are of type
// [*pdu.ParseError].
//
// C pmcd differs: it counts the value sets and does not compare their PMIDs, so it
// does not notice an agent that sends the reply to an earlier request.
func CheckResult(b []byte, ids []pdu.PMID) error {
	return (*Sets)(nil).check(b, ids)
}

// SpareHighRes is the number of bytes that ToHighRes needs before a Result PDU.
const SpareHighRes = pduformat.HighResHeaderLen - pduformat.ResultHeaderLen

// ToHighRes converts a Result PDU into a HighResResult PDU in place. The Result is
// b[SpareHighRes:]; the bytes before it may have any content. Afterwards b is the
// HighResResult. Its sender and its time are 0: see SetFrom and SetHighResTime.
//
// Call ToHighRes only if CheckResult accepts b[SpareHighRes:]. Otherwise it may
// panic.
func ToHighRes(b []byte) {
	n := binary.BigEndian.Uint32(b[SpareHighRes+pduformat.ResultHeaderLen-4:])
	clear(b[:pduformat.HighResHeaderLen])
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	binary.BigEndian.PutUint32(b[4:], uint32(pdu.TypeHighResResult))
	binary.BigEndian.PutUint32(b[pduformat.HeaderLen:], n)
	// The sets stay where they are, and the PDU starts two words before.
	pduformat.Rebase(b[pduformat.HighResHeaderLen:], int(n), SpareHighRes/4)
}

// SetResultTime sets the time of the Result PDU b.
func SetResultTime(b []byte, sec, usec int32) {
	binary.BigEndian.PutUint32(b[pduformat.HeaderLen:], uint32(sec))
	binary.BigEndian.PutUint32(b[pduformat.HeaderLen+4:], uint32(usec))
}

// SetHighResTime sets the time of the HighResResult PDU b.
func SetHighResTime(b []byte, sec, nsec int64) {
	binary.BigEndian.PutUint64(b[pduformat.HeaderLen+4:], uint64(sec))
	binary.BigEndian.PutUint64(b[pduformat.HeaderLen+12:], uint64(nsec))
}

// StateFlags returns the state changes that the Result PDU b of an agent
// reports in place of the seconds. Agents report pdu.StateLabelChange and
// pdu.StateNamesChange only; StateFlags returns other bits unchanged, and 0 if b is too
// short to be a Result.
func StateFlags(b []byte) int32 {
	if len(b) < pduformat.ResultHeaderLen {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b[pduformat.HeaderLen:]))
}

// SetFrom sets the sender in the header of the PDU b.
func SetFrom(b []byte, from int32) { binary.BigEndian.PutUint32(b[8:], uint32(from)) }
