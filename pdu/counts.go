package pdu

import "sync/atomic"

// Counts counts PDUs by type, as pmcd.pdu_in and pmcd.pdu_out show them. The
// zero Counts is ready to use, by any number of goroutines.
type Counts struct{ in, out [numTypes]atomic.Uint32 }

// numTypes is the number of PDU types from TypeError on, holes included.
const numTypes = int(TypeDescs-TypeError) + 1

// In counts a PDU received. Types outside of the protocol's are not counted.
func (c *Counts) In(t Type) { count(&c.in, t) }

// Out counts a PDU sent.
func (c *Counts) Out(t Type) { count(&c.out, t) }

// Received reports how many PDUs of type t were received.
func (c *Counts) Received(t Type) uint32 { return counted(&c.in, t) }

// Sent reports how many PDUs of type t were sent.
func (c *Counts) Sent(t Type) uint32 { return counted(&c.out, t) }

func count(n *[numTypes]atomic.Uint32, t Type) {
	if i := int(t - TypeError); i >= 0 && i < numTypes {
		n[i].Add(1)
	}
}

func counted(n *[numTypes]atomic.Uint32, t Type) uint32 {
	if i := int(t - TypeError); i >= 0 && i < numTypes {
		return n[i].Load()
	}
	return 0
}
