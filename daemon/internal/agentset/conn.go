package agentset

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/internal/safepath"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A Conn is the connection to an agent. A request calls Acquire, uses the Transport and
// calls Release. It passes errors of the Transport to TransportError, and invalid replies
// to ProtocolError.
type Conn struct {
	*transport.Conn
	Agent *Agent // never changes

	inflight  inflight
	announced chan struct{} // closed when AgentConnected has returned

	disconnectOnce sync.Once         // sets the following
	cause          error             // of the end of the connection
	unanswered     transport.Pending // the oldest request without a reply then; its Type is 0 if there was none
}

// Acquire reports whether a request may use c. If so Release must be called after
// it. It waits until AgentConnected of the Observer has returned.
func (c *Conn) Acquire() bool {
	if !closed(c.announced) {
		<-c.announced
	}
	return c.inflight.acquire()
}

// Release is called when a request does not use c any more.
func (c *Conn) Release() { c.inflight.release() }

// InFlight returns how many requests use c.
func (c *Conn) InFlight() int { return c.inflight.count() }

// descriptors returns the text about the descriptors of c for the event trace.
func (c *Conn) descriptors() string {
	if c.In < 0 {
		return "DSO"
	}
	return fmt.Sprintf("infd=%d, outfd=%d", c.In, c.Out)
}

// TransportError returns the error for a client whose request has failed with err. It
// disconnects the agent, unless the agent is late or not ready.
func (c *Conn) TransportError(err error) error {
	c.Agent.latency.requestFailed()
	if errors.Is(err, transport.ErrLate) || errors.Is(err, transport.ErrNotReady) {
		return err
	}
	why := c.Err() // says more than err
	if why == nil {
		why = err
	}
	c.Disconnect(why)
	switch {
	case errors.Is(err, transport.ErrClosed): // by pmcd: it is being disconnected or replaced
		return pdu.ErrnoNoAgent
	case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		return pdu.ErrnoEPIPE // it died while idle
	}
	return pdu.ErrnoIPC
}

// ProtocolError disconnects the agent because of an invalid reply. It returns the error for
// the client.
func (c *Conn) ProtocolError(err error) error {
	c.Agent.latency.requestFailed()
	c.Disconnect(err)
	return pdu.ErrnoIPC
}

// Disconnect closes the connection because of why. If why is nil, the reason is the error
// of the Transport. Any goroutine may call it. When it returns, new requests fail.
// superviseLoop ends the process and starts the agent again.
func (c *Conn) Disconnect(why error) {
	a, s := c.Agent, c.Agent.set
	c.disconnectOnce.Do(func() {
		if why == nil {
			why = c.Err()
		}
		c.cause = why
		c.shutdown()
		c.unanswered, _ = c.Pending()
		status := int32(statusProtocol)
		ended := ""
		if p := c.Process; p != nil {
			// If the process ends by itself within this time, the log can say how.
			wait := time.NewTimer(20 * time.Millisecond)
			defer wait.Stop()
			select {
			case <-p.Done():
				ws := p.Status()
				ended = exitText(ws)
				if ws.Exited() {
					status |= int32(ws.ExitStatus()) << 8
				} else if ws.Signaled() {
					status |= int32(ws.Signal()) << 16
				}
			case <-wait.C:
			}
		}
		text := fmt.Sprintf("protocol failure for fd=%d", c.In)
		switch {
		case why == errUnconfigured, why == errTerminated:
			text = why.Error()
		case s.ending():
			text, ended = errTerminated.Error(), "" // how it ended may not be known
		}
		if a.life.failures() < logThreshold {
			s.cfg.Log.Info("CleanupAgent ...\nCleanup {agent:q} agent (dom {domain}): {error}", "agent", a.Name(), "domain", a.Domain, "error", text+ended)
		}
		s.cfg.Trace.Event(diag.TraceConns, "Drop PMDA: domain=%d, %s", a.Domain, c.descriptors())
		s.cfg.Trace.DumpOnDrop()
		// In this order: a client that gets PM_ERR_NOAGENT was notified before.
		s.cfg.Observer.AgentDisconnected(a)
		a.life.disconnected(c, status)
		s.cfg.Observer.AgentChanged(a)
	})
}

// shutdown ends the Transport and removes the socket of an agent that pmcd started.
func (c *Conn) shutdown() {
	c.Close()
	spec := c.Agent.Spec()
	if spec.Kind == pmcdconf.Socket && spec.Family == access.Unix && c.Process != nil {
		safepath.Remove(spec.Address) // the next one could not bind to it
	}
}
