package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/responder"
	"github.com/gopcp/pmcd/pdu"
)

// Serve runs a as a PMDA on conn until pmcd closes conn. An Agent that was written
// for pmcd's process can so run in a process of its own, under any pmcd. Serve is
// [Server.Serve] without a log.
func Serve(ctx context.Context, a agents.Agent, conn io.ReadWriteCloser) error {
	return (&Server{Agent: a}).Serve(ctx, conn)
}

// A Server runs an Agent as a PMDA. It does what the main loop of libpcp_pmda does
// (pmdaMain(3)).
//
// libpcp_pmda differs: it does not limit the size of a reply. Here a request whose
// reply would exceed MaxReply fails with PM_ERR_TOOBIG.
type Server struct {
	Agent    agents.Agent
	Log      *slog.Logger // of PDUs from pmcd that are bad or ignored; nil means no log
	MaxReply int          // how long a reply may be, in bytes; 0 is 64 MiB

	// Prepare, if not nil, is called after the version exchange. When it has returned, pmcd is
	// told that the agent is ready (PM_ERR_PMDAREADY).
	Prepare func(context.Context)

	conn         io.Writer
	attrSetter   agents.AttrSetter
	contextEnder agents.ContextEnder
	responder    responder.Responder
	profile      *pdu.Profile // the last one received
	reply        []byte

	mu      sync.Mutex // held while a PDU is handled; guards stopped
	stopped bool       // handle no more PDUs
}

// Serve begins the version exchange on conn and replies to requests until ctx ends
// or pmcd closes the stream, in which case it returns nil. As libpcp_pmda, it notices
// the end of the stream when a call of the Agent has returned. The end of ctx ends the
// call, too: Serve waits for it, but not for a Read that does not return although conn
// is closed. Serve closes conn, but not the Agent. If the Agent panics, Serve returns an
// error. It may be called once.
func (s *Server) Serve(ctx context.Context, conn io.ReadWriteCloser) error {
	defer conn.Close()
	s.conn = conn
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	s.attrSetter, _ = s.Agent.(agents.AttrSetter)
	s.contextEnder, _ = s.Agent.(agents.ContextEnder)
	s.responder.Agent, s.responder.Max = s.Agent, s.MaxReply

	ended := make(chan error, 1)
	go func() {
		err := errors.New("agent called runtime.Goexit")
		defer func() { ended <- err }()
		err = s.serve(ctx, conn)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		conn.Close() // also ends a Write that waits
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stopped = true
		return ctx.Err()
	}
}

// serve reads and handles PDUs. Its goroutine is the only one that calls the Agent.
func (s *Server) serve(ctx context.Context, conn io.Reader) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("agent panicked: %v\n%s", v, debug.Stack())
		}
	}()
	if err := s.sendCreds(); err != nil {
		return err
	}
	r := pdu.NewReader(conn, 0)
	handle := s.handleCreds
	for {
		b, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = s.handleLocked(ctx, b, handle)
		}
		if err != nil {
			return err
		}
		handle = s.handle
	}
}

// handleLocked calls handle with b, unless s was stopped.
func (s *Server) handleLocked(ctx context.Context, b []byte, handle func(context.Context, []byte) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return context.Canceled
	}
	return handle(ctx, b)
}

// sendCreds sends the PMDA's CREDS, which begin the version exchange. The sender
// in the header of this PDU is the process id.
func (s *Server) sendCreds() error {
	var want pdu.Features
	if s.attrSetter != nil { // a container is one of the attributes
		want = pdu.FeatureAuth | pdu.FeatureContainer
	}
	b, err := pdu.Append(nil, int32(os.Getpid()), &pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(want)}})
	if err == nil {
		_, err = s.conn.Write(b)
	}
	return err
}

// handleCreds checks pmcd's CREDS, and prepares the agent.
func (s *Server) handleCreds(ctx context.Context, b []byte) error {
	if _, t, _ := pdu.Header(b); t != pdu.TypeCreds {
		return fmt.Errorf("version exchange: %v PDU in place of CREDS", t)
	}
	if _, err := pdu.ParseInto(b, new(pdu.Creds)); err != nil {
		return fmt.Errorf("version exchange: %w", err)
	}
	if s.Prepare == nil {
		return nil
	}
	s.Prepare(ctx)
	ready, err := pdu.Append(nil, 0, &pdu.Error{Code: pdu.ErrnoReady})
	if err == nil {
		_, err = s.conn.Write(ready)
	}
	return err
}

// handle handles the PDU b. After an error the stream cannot be used any more.
func (s *Server) handle(ctx context.Context, b []byte) error {
	_, t, from := pdu.Header(b)
	if s.Log.Enabled(ctx, slog.LevelDebug) {
		s.Log.Debug("received PDU", "type", t, "client", from)
	}
	switch t {
	case pdu.TypeError:
		s.handleError(b, from)
	case pdu.TypeAttr:
		s.handleAttr(b, from)
	case pdu.TypeProfile:
		// A new Profile each time: its address says whether it has changed.
		p := new(pdu.Profile)
		if _, err := pdu.ParseInto(b, p); err != nil {
			s.Log.Warn("bad profile ignored", "error", err)
			return nil
		}
		s.profile = p
	case pdu.TypeFetch, pdu.TypeDescReq, pdu.TypeInstanceReq, pdu.TypeTextReq, pdu.TypeLabelReq, pdu.TypeResult,
		pdu.TypePMNSNames, pdu.TypePMNSIDs, pdu.TypePMNSChild, pdu.TypePMNSTraverse:
		return s.sendReply(ctx, b)
	default:
		s.Log.Error("unrecognised PDU type from pmcd: {type}", "type", t)
	}
	return nil
}

// sendReply calls the Agent for the request b and writes the reply.
func (s *Server) sendReply(ctx context.Context, b []byte) error {
	_, _, from := pdu.Header(b)
	req := responder.Request{Origin: agents.Origin{Client: from}, Profile: s.profile, PDU: b}
	var err error
	if s.reply, err = s.responder.Reply(ctx, req, s.reply[:0]); err != nil {
		var bad *pdu.ParseError
		if !errors.As(err, &bad) {
			return err
		}
		s.Log.Warn("bad request", "error", err)
		if s.reply, err = pdu.Append(s.reply[:0], 0, &pdu.Error{Code: pdu.ErrnoIPC}); err != nil {
			return err
		}
	}
	_, err = s.conn.Write(s.reply)
	if cap(s.reply) > maxKeptReply {
		s.reply = nil
	}
	return err
}

// handleError handles an ERROR PDU. The only one that has a meaning is
// PM_ERR_NOTCONN: the client has disconnected.
func (s *Server) handleError(b []byte, client int32) {
	var e pdu.Error
	if _, err := pdu.ParseInto(b, &e); err != nil {
		s.Log.Warn("bad ERROR PDU ignored", "error", err)
	} else if e.Code != pdu.ErrnoNotConn {
		s.Log.Error("unexpected ERROR PDU from pmcd: {error}", "error", e.Code)
	} else if s.contextEnder != nil {
		s.contextEnder.EndContext(client)
	}
}

// handleAttr passes an attribute of a client to the Agent.
func (s *Server) handleAttr(b []byte, client int32) {
	if s.attrSetter == nil {
		return
	}
	var a pdu.Attr
	if _, err := pdu.ParseInto(b, &a); err != nil {
		s.Log.Warn("bad attribute ignored", "error", err)
		return
	}
	if n := len(a.Value); n > 0 && a.Value[n-1] == 0 {
		a.Value = a.Value[:n-1]
	}
	s.attrSetter.SetAttr(client, a)
}

// maxKeptReply is the size of the largest reply buffer that is reused, in bytes.
const maxKeptReply = 64 << 10
