package wire

import (
	"context"
	"errors"
	"io"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// Serve runs a as a PMDA on conn until pmcd closes it. With it an Agent
// written for pmcd's process can run outside, under any pmcd, and the tests
// of [Client] need no other program.
func Serve(ctx context.Context, a agents.Agent, conn io.ReadWriteCloser) error {
	defer conn.Close()
	var flags pdu.Features
	setter, _ := a.(agents.AttrSetter)
	if setter != nil {
		flags = pdu.FeatureAuth
	}
	buf, err := pdu.Append(nil, 0, &pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(flags)}})
	if err != nil {
		return err
	}
	if _, err := conn.Write(buf); err != nil {
		return err
	}
	resp := agents.Responder{Agent: a}
	var call agents.Call
	r := pdu.NewReader(conn, 0)
	for {
		b, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		_, t, from := pdu.Header(b)
		call.Origin = agents.Origin{Client: from}
		switch t {
		case pdu.TypeCreds:
			continue
		case pdu.TypeProfile:
			// A new one each time: its address says whether it has changed.
			call.Profile = new(pdu.Profile)
			if _, err := pdu.ParseInto(b, call.Profile); err != nil {
				return err
			}
			continue
		case pdu.TypeError: // end of context
			if e, ok := a.(agents.ContextEnder); ok {
				e.EndContext(from)
			}
			continue
		case pdu.TypeAttr:
			var m pdu.Attr
			if _, err := pdu.ParseInto(b, &m); err == nil && setter != nil {
				if n := len(m.Value); n > 0 && m.Value[n-1] == 0 {
					m.Value = m.Value[:n-1]
				}
				setter.SetAttr(from, m)
			}
			continue
		case pdu.TypeFetch:
			if call.Profile != nil {
				call.Origin.Context = call.Profile.Context
			}
		}
		call.Req = b
		if buf, err = resp.Reply(ctx, &call, buf[:0]); err != nil {
			var perr *pdu.ParseError
			if !errors.As(err, &perr) {
				return err
			}
			if buf, err = pdu.Append(buf[:0], 0, &pdu.Error{Code: pdu.ErrnoIPC}); err != nil {
				return err
			}
		}
		if _, err := conn.Write(buf); err != nil {
			return err
		}
	}
}
