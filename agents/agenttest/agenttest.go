// Package agenttest tests agents, as package fstest tests file systems. It is for the
// tests of an agent in Go, and of a PMDA in any language.
package agenttest

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// Test checks that a keeps the promises of [agents.Agent], and of the optional
// interfaces that it implements, for its metrics ids and for their instance domains.
// The metrics must be of one domain. Instances must not be added or removed during the
// test. Test stores no values, and does not close a.
//
// PCP's own agents pass: where they differ from each other, Test accepts what each of
// them does.
func Test(t testing.TB, a agents.Agent, ids ...pdu.PMID) {
	t.Helper()
	transporttest.Test(t, transport.Inline(a), ids...)
}

// TestStream is [Test] for a PMDA at the other end of conn, which is a TCP or Unix
// connection as package net returns it. The PMDA may be a program that was connected
// to, as on a socket line of pmcd.conf, or one that has the other end as its standard
// input and output. TestStream does what pmcd does with a new connection, and closes
// conn, which ends the PMDA.
func TestStream(t testing.TB, conn net.Conn, ids ...pdu.PMID) {
	t.Helper()
	c, ok := conn.(wire.Conn)
	if !ok {
		conn.Close()
		t.Fatalf("a %T is neither a TCP nor a Unix connection", conn)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	client, err := wire.Dial(ctx, c, wire.Options{PID: int32(os.Getpid())})
	if err != nil {
		t.Fatalf("version exchange: %v", err)
	}
	defer client.Close()
	transporttest.Test(t, client, ids...)
}

// startTimeout is how long a PMDA may take to begin the version exchange: longer than
// pmcd waits, because tests may run on a busy machine.
const startTimeout = 30 * time.Second

// Do calls the method of a that the request PDU req is for, as pmcd does, and decodes
// the reply into reply. A fetch, and a request for labels of instances, include all
// instances. If the method returns an error, or a does not have it, Do returns the
// error code that a client gets, as a pdu.Errno. The reply to a successful store is an
// ERROR PDU with code 0, for which Do returns nil. If the method panics, Do returns an
// error with the stack.
func Do(a agents.Agent, o agents.Origin, req, reply pdu.Message) error {
	return transporttest.Do(transport.Inline(a), o, req, reply)
}
