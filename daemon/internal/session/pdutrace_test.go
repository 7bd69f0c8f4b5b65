package session

import (
	"testing"

	"github.com/gopcp/pmcd/daemon/internal/clients"
	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/logtest"
	"github.com/gopcp/pmcd/pdu"
)

// Nothing that is in a PDU stops the trace and the dumps of PDUs.
func FuzzTraceClientPDU(f *testing.F) {
	for _, m := range []pdu.Message{&pdu.Error{}, &pdu.Fetch{PMIDs: []pdu.PMID{1}}, &pdu.PMNSNames{Names: []string{"a"}}, &pdu.Desc{}} {
		b, err := pdu.Append(nil, 0, m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(append(b, b[:13]...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		log, logs := logtest.NewLog()
		srv := &Server{cfg: Config{Trace: diag.NewTrace(diag.TracePDUs|diag.TraceUnbuffered, log), Debug: diag.NewDebug("pdu", log)}}
		s := &session{client: &clients.Client{Conn: noConn{}}, srv: srv}
		s.traceClientPDU(true, b)
		s.traceClientPDU(false, b)
		// A header at least goes into each pair of lines.
		if n := logs.Len(); n > 4*(len(b)/pdu.HeaderLen) {
			t.Errorf("%d lines for %d bytes", n, len(b))
		}
	})
}

// noConn is the Conn of a session that has none.
type noConn struct{ conn.Conn }

func (noConn) FD() int { return -1 }
