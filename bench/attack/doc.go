// Package attack has clients that send what a hostile host sends: legal PDUs that cost
// a pmcd time or memory. The bench measures another client beside them, and tests use
// them to count what a daemon does.
//
// All PDUs are encoded once, so that the clients themselves use little CPU time.
package attack

import (
	"context"
	"net"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// An Attack is a number of connections and what they send.
type Attack struct {
	Conns  int
	Rate   float64            // bytes a second that Repeat may send on all connections together; 0 is no limit
	Script func(i int) Script // of connection i
	Dial   func(context.Context) (net.Conn, error)
	Retry  time.Duration // before a connection that has ended is opened again; 0 is one second

	// Connects is how many connections begin a second, all together; 0 is connectRate.
	Connects float64
}

// A Script is what one connection sends after the greeting. Each element of Repeat is
// written whole.
type Script struct {
	Once   []byte   // first
	Repeat [][]byte // then these, in turn
	Rounds int      // how often; 0 is until the end
	Wait   bool     // for the reply to an element of Repeat before the next one
	Unread bool     // no reply is read

	Handshake bool          // the connection makes a TLS handshake after Once, and ends
	Secure    bool          // all is sent in a TLS connection
	Hold      time.Duration // how long the connection stays open after all; 0 is until pmcd ends it
}

// maxPDU is the longest PDU that pmcd accepts from a client, in bytes.
const maxPDU = 64 << 10

// Most of each that a request of maxPDU bytes has.
const (
	MaxPMIDs  = (maxPDU - 28) / 4
	MaxInsts  = 16_000
	MaxInDoms = 4094
)

// Encode returns messages in wire form. It panics if that fails.
func Encode(ms ...pdu.Message) (b []byte) {
	for _, m := range ms {
		var err error
		if b, err = pdu.Append(b, 0, m); err != nil {
			panic(err)
		}
	}
	return b
}

// hello is the client's part of the handshake.
func hello() []byte { return Encode(&pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(0)}}) }

// Fetch returns a request for n values of the metrics, which are repeated in turn.
func Fetch(context int32, n int, ids ...pdu.PMID) []byte {
	all := make([]pdu.PMID, n)
	for i := range all {
		all[i] = ids[i%len(ids)]
	}
	return Encode(&pdu.Fetch{Context: context, PMIDs: all})
}

// Insts returns a profile of n instances of an instance domain that do not exist, and of
// no others.
func Insts(context int32, n int, indom pdu.InDom) []byte {
	p := pdu.InDomProfile{InDom: indom, Exclude: true, Insts: make([]int32, n)}
	for i := range p.Insts {
		p.Insts[i] = 1<<30 + int32(2*i)
	}
	return Encode(&pdu.Profile{Context: context, InDoms: []pdu.InDomProfile{p}})
}

// InDoms returns a profile with n instance domains. Seed makes it different from others.
func InDoms(context int32, n, seed int) []byte {
	p := &pdu.Profile{Context: context, InDoms: make([]pdu.InDomProfile, n)}
	for i := range p.InDoms {
		p.InDoms[i] = pdu.InDomProfile{InDom: pdu.NewInDom(400, (seed*MaxInDoms+i)&0x3fffff), Exclude: true}
	}
	return Encode(p)
}

// none is a profile without instances.
func none(context int32) []byte { return Encode(&pdu.Profile{Context: context, Exclude: true}) }

// all is a profile with all instances.
func all(context int32) []byte { return Encode(&pdu.Profile{Context: context}) }
